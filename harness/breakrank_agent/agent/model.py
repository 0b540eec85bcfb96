"""Model: what this rank trains, as the hook of its framework hands it out to faults and to records."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Optional, Protocol

from breakrank_agent.protocol.payload import Call, Part, Payload, Wrapper

#: Appends a note to the record.
Note = Callable[[str], None]


class Trained(Payload, Protocol):
    """The offers of a framework's hook: the handles for faults, and a digest of what is left at the end."""

    def left(self) -> dict[str, Any]:
        """Return a digest of the parameters that were used, where nothing trained; empty without any."""


class Model:
    """The handles of what is trained, and its summary; nothing of either before a framework has offered them."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self.handles: Optional[Trained] = None
        self._summarize: Callable[[], dict[str, Any]] = dict

    def adopt(self, handles: Trained, summarize: Callable[[], dict[str, Any]], trains: bool = True) -> None:
        """Take what a framework's hook offers: from whichever is imported first, until another one `trains`."""
        if trains or self.handles is None:
            self.handles, self._summarize = handles, summarize

    def summary(self) -> dict[str, Any]:
        """Return what is to be said of the parameters: nothing where they cannot be read, and then why, once."""
        try:
            return self._summarize()
        except Exception as error:
            # Torch has tensors of many kinds, and users make more: what we do not understand is not theirs to suffer.
            self._summarize = dict
            self._note(f"the parameters cannot be read: {type(error).__name__}: {error}")
            return {}

    def left(self) -> dict[str, Any]:
        """Return what is to be said of the parameters at the end: where nothing trained, of those that were used."""
        summary = self.summary()
        if summary or self.handles is None:
            return summary
        try:
            return self.handles.left()
        except Exception as error:
            self._note(f"the parameters cannot be read: {type(error).__name__}: {error}")
            return {}

    def parameters(self) -> Optional[str]:
        """Return the digest of the parameters, None where there is none."""
        return self.summary().get("params")

    def gradients(self) -> str:
        """Return a digest of the bytes of all gradients."""
        digest = hashlib.blake2b(digest_size=8)
        for _, raw in (self.handles or NoHandles()).gradients():
            digest.update(raw)
        return digest.hexdigest()


class NoHandles:
    """The handles of a fault that strikes before any framework has offered some."""

    def left(self) -> dict[str, Any]:
        """Return nothing: no module is known."""
        return {}

    def buffers(self) -> list[tuple[str, memoryview]]:
        """Raise `RuntimeError`: there are no parameters yet."""
        raise RuntimeError("no parameters are known at this point")

    def gradients(self) -> list[tuple[str, memoryview]]:
        """Raise `RuntimeError`: there are no parameters yet."""
        raise RuntimeError("no parameters are known at this point")

    def batch(self) -> list[Part]:
        """Raise `RuntimeError`: nothing is being loaded."""
        raise RuntimeError("no batch is known at this point")

    def collective(self) -> Call:
        """Raise `RuntimeError`: nothing is being issued."""
        raise RuntimeError("no collective is known at this point")

    def wrapper(self) -> Wrapper:
        """Raise `RuntimeError`: nothing is being called."""
        raise RuntimeError("no wrapper is known at this point")
