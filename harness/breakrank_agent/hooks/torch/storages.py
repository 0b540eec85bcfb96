"""Storages: what of torch's memory an operator touches, each known weakly by its address, and its bytes."""

from __future__ import annotations

import functools
import sys
from typing import Any, NamedTuple, Optional

from breakrank_agent.agent.access_log import Accesses, Kept, Span, shared_at
from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.torch.indices import MOST, Pick, adds, pieces, span_of
from breakrank_agent.hooks.torch.operator_forms import Form

#: Arguments of these kinds touch nothing.
PLAIN = frozenset((int, float, bool, str, type(None)))
#: Known storages are looked through for dead ones when there are this many, and again when they have doubled.
MANY = 4096


class Storage:
    """A storage that is held weakly. `owner` is the thread that made it, while no other has touched it; else empty."""

    __slots__ = ("base", "kept", "key", "owner", "shared", "taken", "told", "weak")

    def __init__(self, weak: Any, owner: str) -> None:
        self.weak = weak
        self.owner = owner
        self.key = ""
        self.base = 0
        self.shared = False
        #: True if a collective has worked on it beside the thread that asked for it.
        self.taken = False
        #: True if its dtype and shape are on record already.
        self.told = False
        self.kept: dict[Any, Kept] = {}


class Touch(NamedTuple):
    """One storage that an operator touches."""

    storage: Storage
    span: Span
    mode: str
    tensor: Any


class Storages:
    """The storages of this process that are known, and what operators touch of them."""

    def __init__(self, agent: Agent) -> None:
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        self._agent = agent
        self._accesses: Accesses = agent.accesses
        self._tensor = torch.Tensor
        self._weak = StorageWeakRef
        self._known: dict[int, Storage] = {}
        self._limit = MANY
        self._mapped = self._coarse = False
        #: True while a collective touches tensors beside the thread that asks for it.
        self.taking = False
        #: At full speed, beside threads: calls that touch nothing which is not on record already. It holds for as long
        #: as each address is that of the same storage.
        self.recent: set[tuple[Any, ...]] = set()

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event == "mmap.__new__" and not agent.busy:
                self._mapped = True
                self.recent.clear()

        sys.addaudithook(hook)
        if "census" in agent.plan.evidence:
            # A census would take what is known of dead storages for something that the program keeps.
            agent.on.step_end.extend((self._bury, self._accesses.forget_old))

    def forget(self) -> None:
        """Forget what the rank knew: in a child that was forked, all that is not shared is a copy."""
        self._known.clear()
        self.recent.clear()

    def touches(self, form: Form, args: Any, kwargs: Any) -> list[Touch]:
        """Return what the operator touches that may be touched by others, writes last."""
        found: list[Touch] = []
        if form.pick is not None:
            self._add_picked(form, form.pick, args, kwargs, found)
            args = (None, *args[1:])
        for mode, value in zip(form.modes, args):
            if type(value) not in PLAIN:
                self._add(value, mode, found)
        if kwargs:
            for name, value in kwargs.items():
                self._add(value, form.by_name.get(name, "r"), found)
        if len(found) > 1:
            found = _merged(found)
        return found

    def _add(self, value: Any, mode: str, found: list[Touch]) -> None:
        if isinstance(value, self._tensor):
            touch = self.touch(value, mode) if mode else None
            if touch is not None:
                found.append(touch)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._add(item, mode, found)

    def _add_picked(self, form: Form, pick: Pick, args: Any, kwargs: Any, found: list[Touch]) -> None:
        """Add what an operator by index touches of its first argument: what the index names."""
        touch = self.touch(args[0], pick.mode)
        if touch is None:
            return
        with self._agent.quietly():
            picked = pieces(args[0], touch.storage.base, pick, args)
        if adds(form.name.split(".")[0], args, kwargs):
            touch = touch._replace(mode="rw")
        if picked is None:
            found.append(touch)
        elif picked:
            found.append(touch._replace(span=span_of(picked)))
            if len(picked) > MOST and not self._coarse:
                self._coarse = True
                text = f"what an index names in more than {MOST} pieces is taken for all that lies between them"
                self._agent.record("note", text=text, limits=True)

    def touch(self, tensor: Any, mode: str) -> Optional[Touch]:
        """Return what is touched of a tensor, or None if it is this thread's own alone, or has no memory."""
        try:
            storage = tensor.untyped_storage()
            shared = storage.is_shared() and tensor.is_cpu
        except (NotImplementedError, RuntimeError):
            # A sparse tensor has no storage of its own, and one that is only described has none at all.
            return None
        known = self._known.get(storage._cdata)
        if known is None:
            if not (shared or self._accesses.threaded or self._mapped or self.taking):
                return None
            known = self._meet(storage, "")
        if shared and not known.shared:
            self._place(known, storage)
        if not (known.shared or known.taken or self._accesses.threaded or self.taking):
            return None
        span = _span(tensor, known.base)
        return None if span is None else Touch(known, span, mode, tensor)

    def _meet(self, storage: Any, owner: str) -> Storage:
        if len(self._known) >= self._limit:
            self._bury()
            self._limit = max(MANY, 2 * len(self._known))
        known = self._known[storage._cdata] = Storage(self._weak(storage), owner)
        if self._mapped and not owner:
            self._place(known, storage)
        return known

    def _bury(self) -> None:
        """Forget the storages that are dead."""
        self._known = {at: known for at, known in self._known.items() if not known.weak.expired()}
        self.recent.clear()

    def _place(self, known: Storage, storage: Any) -> None:
        """Find the shared mapping that a storage lies in, if it does."""
        place = shared_at(storage.data_ptr())
        if place is not None:
            known.key, known.base = place
            known.shared, known.owner, known.told = True, "", False
            known.kept.clear()

    def own(self, value: Any) -> None:
        """Take note that this thread has made a storage."""
        if isinstance(value, self._tensor):
            try:
                storage = value.untyped_storage()
            except (NotImplementedError, RuntimeError):
                return
            if storage._cdata not in self._known:
                self._meet(storage, self._agent.sequences.current())
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.own(item)

    def publish(self, storage: Storage) -> None:
        """Put on record what the thread that made a storage has done with it: another one touches it."""
        owner, storage.owner = storage.owner, ""
        self._accesses.publish(owner, self.key(storage), storage.kept)

    def key(self, storage: Storage) -> str:
        """Return the name of a storage on record."""
        if not storage.key:
            storage.key = f"@{self._accesses.number('storage')}"
        return storage.key


def _merged(touches: list[Touch]) -> list[Touch]:
    """Return the touches with the same bytes named once, reads first and writes last."""
    found: dict[tuple[int, Span], Touch] = {}
    for touch in touches:
        key = id(touch.storage), touch.span
        other = found.get(key)
        if other is None or other.mode == touch.mode:
            found[key] = touch
        else:
            found[key] = touch._replace(mode="rw")
    return sorted(found.values(), key=lambda t: t.mode)


def _span(tensor: Any, base: int) -> Optional[Span]:
    """Return the bytes that a tensor covers, or None if it has none."""
    item = tensor.element_size()
    lo = base + tensor.storage_offset() * item
    if tensor.is_contiguous():
        size = tensor.numel() * item
        return _from_to(lo, lo + size) if size else None
    shape, strides = tuple(tensor.shape), tuple(stride * item for stride in tensor.stride())
    if 0 in shape:
        return None
    hi = lo + sum((size - 1) * stride for size, stride in zip(shape, strides)) + item
    if hi - lo == tensor.numel() * item:
        return Span(lo, hi)
    return Span(lo, hi, shape, strides, item)


#: A span without gaps; the same ones come again and again.
_from_to = functools.lru_cache(maxsize=1 << 12)(Span)


def describe(tensor: Any) -> str:
    """Say what a tensor is, such as `float32 of 64×10`."""
    shape = "×".join(map(str, tensor.shape)) or "one number"
    return f"{str(tensor.dtype)[6:]} of {shape}"
