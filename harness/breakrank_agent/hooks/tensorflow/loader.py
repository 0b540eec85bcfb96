"""Batches that a dataset of TensorFlow hands out to Python, by content: a dataset has no indices.

If a function takes the iterator, or loops over the dataset, the batches stay inside of its graph, and are not seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks.batches import Batch, Iterators
from breakrank_agent.hooks.tensorflow.training import Training, training_of
from breakrank_agent.hooks.tensorflow.variables import components
from breakrank_agent.protocol.fault import Strike

WAITS_FOR = "tensorflow"

#: The most datasets, each of which takes from others, that are looked at.
_MOST = 64

#: The iterator, and the strikes on a batch by their numbers; None where the call is not the one that hands it out.
Asked = Optional[tuple[Any, Sequence[tuple[int, Strike]]]]


def install(agent: Agent) -> None:
    """Wrap the iterators of datasets, and of those that a strategy distributes."""
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.distribute import input_lib

    handing = _Handing(agent, training_of(agent))
    handing.wrap(iterator_ops.OwnedIterator, "_next_internal")
    handing.wrap(input_lib.DistributedIteratorBase, "get_next")


class _Handing:
    """Sees the outermost of the iterators that hand a batch on."""

    def __init__(self, agent: Agent, training: Training) -> None:
        self._agent = agent
        self._training = training
        self._iterators = Iterators()
        self._under_way = False
        self._noted = False

    def wrap(self, kind: Any, name: str) -> None:
        """Wrap the method of a kind of iterators that returns the next batch."""
        interpose(kind, name, self._ask, self._hand_out, self._fail)

    def _ask(self, iterator: Any, *_: Any, **__: Any) -> Asked:
        """Enter the point, and return who is asked, with the strikes; None within another, or where a graph asks."""
        import tensorflow as tf

        if self._under_way or self._training.ours:
            return None
        if not tf.executing_eagerly():
            self._note()
            return None
        self._agent.reach("load")
        self._under_way = True
        return iterator, self._agent.injector.take_strikes("batch") if self._agent.injector.awaiting else ()

    def _fail(self, asked: Asked, error: BaseException) -> None:
        import tensorflow as tf

        if asked is None:
            return
        if isinstance(error, tf.errors.OutOfRangeError):
            self._agent.clock.leave_empty_load()
        elif isinstance(error, Exception):
            self._agent.raised("load", error)
        self._under_way = False

    def _hand_out(self, asked: Asked, batch: Any) -> Any:
        if asked is None:
            return batch
        self._under_way = False
        iterator, strikes = asked
        for number, strike in strikes:
            batch = _struck(self._agent, number, strike, batch)
        facts: dict[str, Any] = {}
        if self._agent.digests_now():
            with self._agent.quietly():
                facts = _facts(_replicas(batch))
        met = self._agent.guard(self._iterators.meet, iterator) or {}
        if met and self._agent.guard(_shuffles, iterator):
            met["shuffles"] = True
        facts.update(met)
        self._agent.payload("load", indices=None, **facts)
        return batch

    def _note(self) -> None:
        """Say once that batches are taken out of sight."""
        if not self._noted:
            self._noted = True
            text = "batches are taken inside of a function's graph, and are not seen there"
            self._agent.record("note", text=text, limits=True)


def _shuffles(iterator: Any) -> bool:
    """Return whether a dataset shuffles, of those from which an iterator takes its batches."""
    from tensorflow.python.data.ops.shuffle_op import _ShuffleDataset

    left: list[Any] = [getattr(iterator, "_dataset", None)]
    for _ in range(_MOST):
        dataset: Any = left.pop() if left else None
        if isinstance(dataset, _ShuffleDataset):
            return True
        left += dataset._inputs() if hasattr(dataset, "_inputs") else ()
    return False


def _replicas(batch: Any) -> list[list[Any]]:
    """Return the numbers of each dense tensor of a batch, for each replica of this process."""
    import tensorflow as tf

    flat = [components(value) for value in tf.nest.flatten(batch, expand_composites=False)]
    found = []
    for number in range(max(map(len, flat), default=0)):
        tensors = [here[min(number, len(here) - 1)] for here in flat]
        found.append([t.numpy() for t in tensors if isinstance(t, tf.Tensor) and t.dtype != tf.variant])
    return found


def _facts(replicas: list[list[Any]]) -> dict[str, Any]:
    """Return what is recorded of a batch: its content, by sample where these can be told apart, and its form."""
    samples = [_samples(arrays) for arrays in replicas]
    facts: dict[str, Any] = {
        "samples": None if None in samples else [one for some in samples for one in some or ()],
        "batch": _digest([array for arrays in replicas for array in arrays]),
        "shapes": [list(array.shape) for arrays in replicas for array in arrays],
        "dtypes": [str(array.dtype) for arrays in replicas for array in arrays],
        "finite": all(map(_is_finite, replicas)),
    }
    if len(replicas) > 1:
        facts["sizes"] = [_size(arrays) for arrays in replicas]
        facts["unfit"] = [number for number, arrays in enumerate(replicas) if not _is_finite(arrays)]
    return facts


def _digest(arrays: list[Any]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        # The same numbers in another form are another batch.
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _is_finite(arrays: list[Any]) -> bool:
    import numpy

    return all(bool(numpy.isfinite(array).all()) for array in arrays if array.dtype.kind == "f")


def _size(arrays: list[Any]) -> Optional[int]:
    """Return the first dimension, if all tensors share one: it is taken for the batch."""
    sizes = {array.shape[0] for array in arrays if array.ndim}
    return int(sizes.pop()) if len(sizes) == 1 else None


def _samples(arrays: list[Any]) -> Optional[list[str]]:
    """Return a digest per sample, or None where samples cannot be told apart."""
    size = _size(arrays)
    if size is None:
        return None
    return [
        hashlib.blake2b(b"".join(array[i].tobytes() for array in arrays if array.ndim), digest_size=8).hexdigest()
        for i in range(size)
    ]


class _Part:
    """A copy of one tensor of a batch, for a fault to change."""

    def __init__(self, tensor: Any) -> None:
        import numpy

        self.array: Any = numpy.array(tensor.numpy())

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def numbers(self) -> memoryview[Any]:
        return memoryview(self.array.reshape(-1).data)

    def cast(self, dtype: str) -> None:
        self.array = self.array.astype(dtype)


def _struck(agent: Agent, number: int, strike: Strike, batch: Any) -> Any:
    """Return the batch with what a fault made of it, and record its digest as it was and as it is.

    A batch that the fault cannot change is handed out as it is, and nobody sees the strike land.
    """
    import tensorflow as tf

    with agent.quietly():
        flat = tf.nest.flatten(batch, expand_composites=False)
        # Of a batch for several replicas, that of the first is struck.
        places = [i for i, value in enumerate(flat) if isinstance(components(value)[0], tf.Tensor)]
        parts = [_Part(components(flat[i])[0]) for i in places]
        try:
            strike.fault.strike_inside(Batch(parts))
        except Exception as error:
            agent.record("note", text=f"strike {number} cannot change this batch: {type(error).__name__}: {error}")
            return batch
        before = _facts(_replicas(batch))["batch"]
        for i, part in zip(places, parts):
            struck, others = tf.constant(part.array), components(flat[i])[1:]
            flat[i] = type(flat[i])((struck, *others)) if others else struck
        changed = tf.nest.pack_sequence_as(batch, flat)
        agent.record("strike", strike=number, phase="seen", before=before, after=_facts(_replicas(changed))["batch"])
    return changed
