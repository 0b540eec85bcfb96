"""Model: what this rank trains, as the hook of its framework hands it out to faults and to records."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Optional, Protocol

from breakrank_agent.protocol.bits import Words
from breakrank_agent.protocol.payload import Call, Computation, Part, Payload, Wrapper

#: Appends a note to the record.
Note = Callable[[str], None]


class Trained(Payload, Protocol):
    """The offers of a framework's hook: handles for faults, and facts of the parameters, by their names on record."""

    def summarize(self) -> dict[str, Any]:
        """Return the digest, the norm and the finiteness of the parameters; empty without any."""

    def sketch(self) -> dict[str, Any]:
        """Return sketches of the parameters, as `breakrank_agent.agent.sketch` makes them; empty without any."""

    def is_finite(self) -> bool:
        """Return whether all parameters are finite, which costs less than to summarize them."""

    def left(self) -> dict[str, Any]:
        """Return a digest of the parameters that were used, where nothing trained; empty without any."""


class Model:
    """The handles of what is trained, and its summary; nothing of either before a framework has offered them."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self.handles: Optional[Trained] = None
        self._readable = True
        #: The last step at whose end somebody asked for the parameters, or for whether they are finite; 0 before.
        self._looked_at = 0

    def adopt(self, handles: Trained, trains: bool = True) -> None:
        """Take what a framework's hook offers: from whichever is imported first, until another one `trains`."""
        if trains or self.handles is None:
            self.handles = handles

    def summary(self) -> dict[str, Any]:
        """Return what is to be said of the parameters: nothing where they cannot be read, and then why, once."""
        return self._read("summarize")

    def sketch(self) -> dict[str, Any]:
        """Return the sketches of the parameters; as `summary`."""
        return self._read("sketch")

    def _read(self, name: str) -> dict[str, Any]:
        if self.handles is None or not self._readable:
            return {}
        try:
            facts: dict[str, Any] = getattr(self.handles, name)()
        except Exception as error:
            # Torch has tensors of many kinds, and users make more: what we do not understand is not theirs to suffer.
            self._readable = False
            self._note(f"the parameters cannot be read: {type(error).__name__}: {error}")
            return {}
        return facts

    def summary_at(self, step: int) -> dict[str, Any]:
        """Return the summary at the end of a step."""
        return self._dated(step, self.summary())

    def left_at(self, step: int) -> dict[str, Any]:
        """Return what is to be said of the parameters at the end: where nothing trained, of those that were used."""
        return self.summary_at(step) or self._read("left")

    def not_finite_at(self, step: int) -> dict[str, Any]:
        """Return that some parameter is not finite at the end of a step; nothing if all are, or cannot be read."""
        try:
            finite = self.handles is None or self.handles.is_finite()
        except Exception:
            # The next summary says why.
            finite = True
        return self._dated(step, {} if finite else {"finite": False})

    def _dated(self, step: int, found: dict[str, Any]) -> dict[str, Any]:
        """Return facts about the parameters, with the last step at which all was well, unless it is the one before."""
        before, self._looked_at = self._looked_at, step
        if found.get("finite") is False and 0 < before < step - 1:
            return {**found, "since": before}
        return found

    def parameters(self) -> Optional[str]:
        """Return the digest of the parameters, None where there is none."""
        return self.summary().get("params")

    def gradients(self) -> str:
        """Return a digest of the bytes of all gradients."""
        digest = hashlib.blake2b(digest_size=8)
        for _, raw in (self.handles or NoHandles()).gradients():
            digest.update(raw)
        return digest.hexdigest()

    def optimizer_state(self) -> str:
        """Return a digest of the bytes of the optimizers' state."""
        digest = hashlib.blake2b(digest_size=8)
        for words in (self.handles or NoHandles()).words("optimizer state"):
            digest.update(words.raw)
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

    def words(self, of: str) -> list[Words]:
        """Raise `LookupError`: nothing is known."""
        raise LookupError(f"no {of} are known at this point")

    def batch(self) -> list[Part]:
        """Raise `RuntimeError`: nothing is being loaded."""
        raise RuntimeError("no batch is known at this point")

    def collective(self) -> Call:
        """Raise `RuntimeError`: nothing is being issued."""
        raise RuntimeError("no collective is known at this point")

    def wrapper(self) -> Wrapper:
        """Raise `RuntimeError`: nothing is being called."""
        raise RuntimeError("no wrapper is known at this point")

    def computation(self) -> Computation:
        """Raise `RuntimeError`: nothing is being computed."""
        raise RuntimeError("no forward pass is known at this point")
