"""Datasets of torch, told apart by what they hold: two ranks that have one dataset mean the same by an index."""

from __future__ import annotations

import dis
import functools
import hashlib
import os
import types
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional

#: The depth to which the objects that a dataset holds are looked into, the most items of a list, and
#: the most values in all.
_DEPTH, _ITEMS, _MOST = 10, 8, 2000
#: The bytes at each end of an array that are looked at.
_ENDS = 256
#: The epochs at whose beginning a dataset is looked at each time; while it stays the same, it is looked at again when
#: twice as many have begun.
_SURE = 4
#: The methods that make a sample of an index, or change one.
_METHODS = ("__getitem__", "__getitems__", "__call__", "forward")
#: Names of what tells a process which rank it is.
_OF_A_RANK = frozenset(("environ", "getenv", "get_rank", "get_world_size", "process_index", "local_rank", "rank"))
#: Modules whose objects without attributes say nothing, and need not: generators of random numbers, locks, dtypes.
_MUTE = frozenset(("random", "_random", "numpy", "torch", "_thread", "threading", "multiprocessing"))
_PLAIN = (bool, int, float, complex, str, bytes, range, slice, type(None))


def describe(dataset: Any, index_sampler: Any) -> dict[str, Any]:
    """Return digest and size of the innermost dataset, and how a loader's sampler of indices draws from it.

    There is no digest where a part of the dataset is of a kind that says nothing of itself.
    """
    kinds, sampler, part = _kinds(), getattr(index_sampler, "sampler", None), False
    while isinstance(dataset, kinds.subset):
        dataset, part = dataset.dataset, True
    facts: dict[str, Any] = {}
    try:
        facts["total"] = len(dataset)
    except (TypeError, NotImplementedError):
        return facts
    digest = _digest_of(dataset)
    if digest:
        facts["dataset"] = digest
    how = "part" if part else _how(sampler, facts["total"])
    if how:
        facts["draws"] = how
    # Only others than these may add samples so that all ranks have as many.
    plain = type(index_sampler) is kinds.batches and type(sampler) in kinds.plain
    if not plain and (part or facts["total"] % _at_once(index_sampler)):
        facts["padded"] = True
    return facts


class _Kinds(NamedTuple):
    """Torch's own classes: of a part of a dataset, of batches, of a random part, and its plain samplers."""

    subset: type[Any]
    batches: type[Any]
    random_part: type[Any]
    plain: tuple[type[Any], ...]


@functools.cache
def _kinds() -> _Kinds:
    """Return the classes; to import them anew at each epoch takes longer than to look at them."""
    from torch.utils import data

    plain = (data.SequentialSampler, data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    return _Kinds(data.Subset, data.BatchSampler, data.SubsetRandomSampler, plain)


def _at_once(index_sampler: Any) -> int:
    """Return how many samples all ranks take at a step together."""
    import torch

    world = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    size = getattr(index_sampler, "batch_size", None)
    return world * size if isinstance(size, int) and size > 0 else world


def _how(sampler: Any, total: int) -> str:
    """Return how a sampler draws: with replacement, of a part of the dataset, or nothing for all of it."""
    if getattr(sampler, "replacement", False):
        return "replacement"
    number = getattr(sampler, "num_samples", None)
    shared = hasattr(sampler, "num_replicas")
    if isinstance(sampler, _kinds().random_part) or (isinstance(number, int) and number < total and not shared):
        return "part"
    return ""


class _Known:
    """The digest of a dataset, and how many of its epochs have begun."""

    __slots__ = ("alive", "begun", "digest", "next")

    def __init__(self, alive: Any) -> None:
        self.alive = alive
        self.digest: Optional[str] = None
        self.begun, self.next = 0, 1

    def meet(self, dataset: Any) -> str:
        """Return the digest at the beginning of an epoch."""
        self.begun += 1
        if self.digest is None or self.begun >= self.next:
            digest = _look_at(dataset)
            same, self.digest = digest == self.digest, digest
            self.next = self.begun * 2 if same and self.begun >= _SURE else self.begun + 1
        return self.digest


#: The digests of datasets that are in use, by identity: their own idea of equality is the program's code.
_known: dict[int, _Known] = {}


def _digest_of(dataset: Any) -> str:
    """Return the digest of a dataset whose next epoch begins, or nothing where it cannot be told from others."""
    known = _known.get(id(dataset))
    if known is None or known.alive() is not dataset:
        try:
            known = _Known(weakref.ref(dataset, functools.partial(_forget, id(dataset))))
        except TypeError:
            # A list, for one.
            return _look_at(dataset)
        _known[id(dataset)] = known
    return known.meet(dataset)


def _forget(identity: int, alive: Any) -> None:
    known = _known.get(identity)
    if known is not None and known.alive is alive:
        del _known[identity]


def _look_at(dataset: Any) -> str:
    look = _Look()
    try:
        return look.digest.hexdigest() if look.feed(dataset, _DEPTH) else ""
    except Exception:
        # An object of the program's that cannot be looked at.
        return ""


class _Look:
    """A look at an object and what it holds, in one digest."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=8)
        self._left = _MOST

    def feed(self, value: Any, depth: int) -> bool:
        """Feed the digest with what is known of a value; return False if that is nothing."""
        self._left -= 1
        if self._left < 0:
            # It was enough to tell one from another.
            return True
        self._say(type(value).__qualname__)
        if isinstance(value, (*_PLAIN, os.PathLike)):
            self._say(repr(value))
            return True
        ends = _ends(value)
        if ends is not None:
            self.digest.update(ends)
            return True
        return depth > 0 and (self._feed_several(value, depth) or self._feed_callable(value, depth))

    def _say(self, text: str) -> None:
        self.digest.update(text.encode())

    def _all(self, values: Iterable[Any], depth: int) -> bool:
        return all(self.feed(value, depth - 1) for value in values)

    def _feed_several(self, value: Any, depth: int) -> bool:
        if isinstance(value, (list, tuple)):
            self._say(str(len(value)))
            return self._all([*value[:_ITEMS], *value[-_ITEMS:]], depth)
        if isinstance(value, dict):
            self._say(str(len(value)))
            return self._all([one for pair in [*value.items()][:_ITEMS] for one in pair], depth)
        if isinstance(value, (set, frozenset)):
            self._say(str(sorted(repr(one) for one in value if isinstance(one, _PLAIN))))
            return True
        return False

    def _feed_callable(self, value: Any, depth: int) -> bool:
        if isinstance(value, functools.partial):
            return self._all((value.func, value.args, value.keywords), depth)
        if isinstance(value, types.MethodType):
            return self.feed(value.__func__, depth) and self.feed(value.__self__, depth - 1)
        if isinstance(value, types.FunctionType):
            return self._feed_function(value, depth)
        if isinstance(value, (types.BuiltinFunctionType, type, types.ModuleType)):
            self._say(getattr(value, "__qualname__", value.__name__))
            return True
        return self._feed_object(value, depth)

    def _feed_object(self, value: Any, depth: int) -> bool:
        held = getattr(value, "__dict__", None)
        if held is None:
            # The state of a generator, or of a lock, does not make it another sample.
            return type(value).__module__.partition(".")[0] in _MUTE
        own = [getattr(type(value), name, None) for name in _METHODS]
        methods = [one for one in own if isinstance(one, types.FunctionType)]
        named = [one for name in sorted(held) for one in (name, held[name])]
        return self._all(named, depth) and all(self._feed_function(method, depth) for method in methods)

    def _feed_function(self, function: types.FunctionType, depth: int) -> bool:
        """Feed the digest with what a function holds, and with the plain values among the globals that it uses.

        One that asks for its rank, or for the environment, may make another sample of an index on each rank.
        """
        asked = _globals_of(function.__code__)
        if asked is None:
            return False
        self._say(function.__qualname__)
        held = [cell.cell_contents for cell in function.__closure__ or ()] + [*(function.__defaults__ or ())]
        used = [function.__globals__[name] for name in asked if name in function.__globals__]
        plain = [value for value in used if isinstance(value, (*_PLAIN, os.PathLike)) or _ends(value) is not None]
        return self._all([*held, *plain], depth)


@functools.lru_cache(maxsize=256)
def _globals_of(code: types.CodeType) -> Optional[tuple[str, ...]]:
    """Return the names of the globals that a function uses; None where one of its names tells a process its rank."""
    codes = _codes(code)
    if any(not _OF_A_RANK.isdisjoint(one.co_names) for one in codes):
        return None
    # Names of attributes are beside those of globals, and may be the same.
    loaded = {one.argval for inner in codes for one in dis.get_instructions(inner) if one.opname == "LOAD_GLOBAL"}
    return tuple(sorted(loaded))


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """Return the code of a function, and of those inside of it."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return [code, *(found for one in inner for found in _codes(one))]


def _ends(value: Any) -> Optional[bytes]:
    """Return shape, dtype and both ends of an array or a tensor that lies on the CPU; None for anything else."""
    import torch

    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_meta:
            return None
        flat = value.detach().reshape(-1)
        count = max(1, _ENDS // value.element_size())
        shown = torch.cat((flat[:count], flat[-count:])).cpu().view(torch.uint8)
        data: bytes = shown.numpy().tobytes()
        return f"{tuple(value.shape)} {value.dtype} ".encode() + data
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        flat = value.reshape(-1)
        count = max(1, _ENDS // max(1, value.dtype.itemsize))
        return f"{value.shape} {value.dtype} {flat[:count].tolist()} {flat[-count:].tolist()}".encode()
    return None
