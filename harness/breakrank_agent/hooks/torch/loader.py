"""Samples that a torch DataLoader hands out: by index if the dataset has indices, else by content."""

from __future__ import annotations

import collections
import copy
import functools
import hashlib
import operator
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks.batches import Batch
from breakrank_agent.hooks.torch.datasets import describe
from breakrank_agent.protocol.fault import Strike

WAITS_FOR = "torch.utils.data.dataloader"

#: The attribute of an iterator that keeps the indices drawn and not handed out yet.
_DRAWN = "_breakrank_drawn"
#: The attribute of an iterator that keeps its number, in the order of their first batches. A dictionary with weak keys
#: costs more, and each short epoch pays for it.
_NUMBER = "_breakrank_number"
#: Codes of the module struct for torch's dtypes.
_CODES = {"uint8": "B", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "float32": "f", "float64": "d"}


def install(agent: Agent) -> None:
    """Wrap the iterators of every DataLoader, which the program is about to use."""
    from torch.utils.data import dataloader

    kind = dataloader._BaseDataLoaderIter
    _keep_indices(kind)
    _watch_batches(agent, kind, _Handed(agent).record)


def _watch_batches(agent: Agent, kind: Any, record: Callable[[Any, Any], None]) -> None:
    """See each batch that an iterator hands out. By hand, as each step pays for it."""
    fetch, reach, injector = kind.__next__, agent.reach, agent.injector

    @functools.wraps(fetch)
    def __next__(self: Any) -> Any:
        reach("load")
        strikes = injector.take_strikes("batch") if injector.awaiting else ()
        try:
            batch = fetch(self)
        except BaseException as error:
            hide(error)
            if isinstance(error, StopIteration):
                agent.clock.leave_empty_load()
            elif isinstance(error, Exception):
                agent.raised("load", error)
            raise
        for number, strike in strikes:
            batch = _struck(agent, number, strike, batch)
        record(self, batch)
        return batch

    kind.__next__ = __next__


class _Handed:
    """The batches that were handed out, as they go on record."""

    def __init__(self, agent: Agent) -> None:
        from torch.utils.data import dataloader
        from torch.utils.data.dataset import Subset
        from torch.utils.data.sampler import RandomSampler

        self._agent = agent
        self._subset, self._random_order = Subset, RandomSampler
        self._has_indices, self._streams = dataloader._DatasetKind.Map, dataloader._DatasetKind.Iterable
        #: The number of iterators by now, and the identity of the one of the last batch: another one with the same
        #: identity has begun since.
        self._count = self._last = 0
        self._digests = agent.plan.digests != "none"

    def record(self, loader: Any, batch: Any) -> None:
        """Record a batch that an iterator hands out, with what is known of an iterator that begins."""
        agent = self._agent
        waiting = loader.__dict__.get(_DRAWN)
        index = waiting.popleft() if waiting else None
        found: Optional[list[Any]] = None
        if loader._dataset_kind == self._has_indices:
            plain = type(index) is list and not isinstance(loader._dataset, self._subset)
            found = index if plain else _indices(loader._dataset, index, self._subset)
        begins: dict[str, Any] = {}
        if id(loader) != self._last or loader._num_yielded == 1:
            self._last = id(loader)
            begins["iterator"] = self._number(loader)
            if loader._num_yielded == 1 and not agent.recorder.over:
                begins.update(_begins(loader, self._streams, self._random_order))
        digested = self._digests and agent.digests_now()
        if digested or begins or found is None:
            digests = _digests(agent, batch, found is not None) if digested else {}
            agent.payload("load", indices=_plain(found), **digests, **begins)
        elif not agent.count("load", "indices", found):
            agent.payload("load", indices=_plain(found))

    def _number(self, loader: Any) -> int:
        """Return the number of an iterator. Persistent workers keep their iterator, which is another when it begins."""
        number: int = loader.__dict__.get(_NUMBER, 0)
        if not number or loader._num_yielded == 1:
            self._count += 1
            number = loader.__dict__[_NUMBER] = self._count
        return number


def _keep_indices(kind: Any) -> None:
    """Keep what an iterator draws until it is handed out. By hand: a loader may do little else."""
    draw = kind._next_index

    @functools.wraps(draw)
    def _next_index(self: Any) -> Any:
        index = draw(self)
        # Loader workers are handed their indices ahead of time; batches still come out in this order.
        try:
            self.__dict__[_DRAWN].append(index)
        except KeyError:
            self.__dict__[_DRAWN] = collections.deque((index,))
        return index

    kind._next_index = _next_index


def _begins(loader: Any, iterable: Any, random_order: type[Any]) -> dict[str, Any]:
    """Return what is known of an iterator that has just handed out its first batch.

    `random_order` is the class of samplers that draw another order for each iterator.
    """
    if loader._dataset_kind == iterable:
        return {"workers": int(loader._num_workers)}
    begins: dict[str, Any] = describe(loader._dataset, loader._index_sampler)
    try:
        begins["begins"] = len(loader._index_sampler)
    except (TypeError, NotImplementedError):
        # Samplers need not know.
        return begins
    sampler = getattr(loader._index_sampler, "sampler", None)
    if type(sampler) is random_order:
        begins["shuffles"] = True
    if getattr(sampler, "shuffle", False) is True and hasattr(sampler, "set_epoch"):
        begins["epoch"] = int(getattr(sampler, "epoch", 0))
    return begins


def _digests(agent: Agent, batch: Any, has_indices: bool) -> dict[str, Any]:
    """Return digests of a batch: of the whole, and of each sample where nothing else tells samples apart.

    Samples that have indices are digested, too, where contents are asked for: two datasets may hold the same ones.

    Nothing is told of a batch in which no tensor is found: it would look like any other.
    """
    tensors: list[Any] = []
    _tensors(batch, tensors)
    if not tensors:
        return {}
    with agent.quietly():
        digests: dict[str, Any] = {"samples": None if has_indices else _samples(tensors), "batch": _digest(tensors)}
        if has_indices and "contents" in agent.plan.evidence:
            digests["contents"] = _samples(tensors)
        return digests


def _digest(tensors: list[Any]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(_content(tensor))
    return digest.hexdigest()


class _Part:
    """A copy of one tensor of a batch, for a fault to change."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor.detach().clone().contiguous()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    def numbers(self) -> memoryview[Any]:
        from breakrank_agent.hooks.torch.tensor_memory import raw_bytes

        code: Any = _CODES[str(self.tensor.dtype)[6:]]
        return raw_bytes(self.tensor).cast(code)

    def cast(self, dtype: str) -> None:
        import torch

        self.tensor = self.tensor.to(getattr(torch, dtype))


def _struck(agent: Agent, number: int, strike: Strike, batch: Any) -> Any:
    """Return the batch with what a fault made of it, and record its digest as it was and as it is.

    A batch that the fault cannot change is handed out as it is, and nobody sees the strike land.
    """
    before: list[Any] = []
    after: list[Any] = []
    with agent.quietly():
        _tensors(batch, before)
        parts = [_Part(tensor) for tensor in before]
        try:
            strike.fault.strike_inside(Batch(parts))
        except Exception as error:
            agent.record("note", text=f"strike {number} cannot change this batch: {type(error).__name__}: {error}")
            return batch
        changed = _rebuilt(batch, iter(parts))
        _tensors(changed, after)
        agent.record("strike", strike=number, phase="seen", before=_digest(before), after=_digest(after))
    return changed


def _rebuilt(value: Any, parts: Iterator[_Part]) -> Any:
    """Return a batch of the same form with the tensors of `parts`, in the order of `_tensors`."""
    import torch

    if isinstance(value, torch.Tensor):
        return next(parts).tensor
    if isinstance(value, dict):
        return {key: _rebuilt(value[key], parts) for key in value}
    if isinstance(value, MutableMapping):
        changed = copy.copy(value)
        for key in value:
            changed[key] = _rebuilt(value[key], parts)
        return changed
    if isinstance(value, (list, tuple)):
        items = [_rebuilt(item, parts) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _indices(dataset: Any, index: Any, subset: type[Any]) -> list[Any]:
    """Return the indices in the innermost dataset: a subset renumbers those of the one that it is taken from."""
    found = index if type(index) is list else list(index) if isinstance(index, tuple) else [index]
    while isinstance(dataset, subset):
        found = [dataset.indices[i] for i in found]
        dataset = dataset.dataset
    return found


def _plain(found: Optional[list[Any]]) -> Optional[list[Any]]:
    """Return indices as whole numbers; what is none, such as a name, as text."""
    if found is None:
        return None
    try:
        return list(map(operator.index, found))
    except TypeError:
        return [operator.index(i) if hasattr(i, "__index__") else str(i) for i in found]


def _tensors(value: Any, into: list[Any]) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        into.append(value)
    elif isinstance(value, Mapping):
        # That of a tokenizer is no dict.
        for key in value:
            _tensors(value[key], into)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _tensors(item, into)


def _content(tensor: Any) -> bytes:
    from breakrank_agent.hooks.torch.tensor_memory import held_of, raw_bytes

    return b"".join(raw_bytes(held.detach().cpu().contiguous()) for held in held_of(tensor))


def _samples(tensors: list[Any]) -> list[str]:
    """Return a digest per sample: the first dimension that all tensors share is taken for the batch."""
    import torch

    sizes = {t.shape[0] for t in tensors if t.dim()}
    # A tensor that has another layout, or is nested, has no samples that could be picked by a number.
    if len(sizes) != 1 or any(t.layout is not torch.strided or hasattr(t, "__tensor_flatten__") for t in tensors):
        return []
    return [
        hashlib.blake2b(b"".join(_content(t[i]) for t in tensors if t.dim()), digest_size=8).hexdigest()
        for i in range(sizes.pop())
    ]
