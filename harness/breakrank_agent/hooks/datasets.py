"""What a dataset of TensorFlow hands out to Python, by content: a dataset has no indices.

Where a function takes the iterator, or loops over the dataset, the batches stay inside of its graph, and are not seen.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, Callable

from breakrank_agent.fault import Part
from breakrank_agent.frames import hide
from breakrank_agent.hooks.tensorflow import Training, components, training_of
from breakrank_agent.plan import Strike
from breakrank_agent.probe import Agent, NoHandles

WAITS_FOR = "tensorflow"


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
        self._under_way = False

    def wrap(self, kind: Any, name: str) -> None:
        """Wrap the method of a kind of iterators that returns the next batch."""
        original: Callable[..., Any] = getattr(kind, name)
        agent = self._agent

        @functools.wraps(original)
        def get_next(iterator: Any, *args: Any, **kwargs: Any) -> Any:
            import tensorflow as tf

            if self._under_way or self._training.ours or not tf.executing_eagerly():
                try:
                    return original(iterator, *args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise
            agent.reach("load")
            strikes = agent.take_strikes("batch") if agent.awaiting else ()
            self._under_way = True
            try:
                batch = original(iterator, *args, **kwargs)
            except tf.errors.OutOfRangeError as error:
                hide(error)
                agent.clock.leave_empty_load()
                raise
            except Exception as error:
                hide(error)
                agent.raised("load", error)
                raise
            finally:
                self._under_way = False
            for number, strike in strikes:
                batch = _struck(agent, number, strike, batch)
            if agent.plan.payloads:
                with agent.quietly():
                    arrays = _arrays(batch)
                    facts: dict[str, Any] = {"samples": _samples(arrays), "batch": _digest(arrays)}
                    facts["shapes"] = [list(array.shape) for array in arrays]
                agent.payload("load", indices=None, **facts)
            return batch

        setattr(kind, name, get_next)


def _arrays(batch: Any) -> list[Any]:
    """Return the numbers of each dense tensor of a batch, replica by replica."""
    import tensorflow as tf

    found = []
    for value in tf.nest.flatten(batch, expand_composites=False):
        for tensor in components(value):
            if isinstance(tensor, tf.Tensor) and tensor.dtype != tf.variant:
                found.append(tensor.numpy())
    return found


def _digest(arrays: list[Any]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()


def _samples(arrays: list[Any]) -> list[str]:
    """Return a digest per sample: the first dimension that all tensors share is taken for the batch."""
    columns = [array for array in arrays if array.ndim]
    if len({len(column) for column in columns}) != 1:
        return []
    rows = (b"".join(value.tobytes() for value in row) for row in zip(*columns))
    return [hashlib.blake2b(row, digest_size=8).hexdigest() for row in rows]


class _Part:
    """A copy of one tensor of a batch, for a fault to change."""

    def __init__(self, tensor: Any) -> None:
        import numpy

        self.array = numpy.array(tensor.numpy())

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def numbers(self) -> memoryview[Any]:
        return memoryview(self.array.data)

    def cast(self, dtype: str) -> None:
        self.array = self.array.astype(dtype)


class _Batch(NoHandles):
    """The parts of a batch that is about to be handed out."""

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    def batch(self) -> list[Part]:
        """Return the parts."""
        return [*self._parts]


def _struck(agent: Agent, number: int, strike: Strike, batch: Any) -> Any:
    """Return the batch with what a fault made of it, and record its digest as it was and as it is.

    A batch that the fault cannot change is handed out as it is, and nobody sees the strike land.
    """
    import tensorflow as tf

    with agent.quietly():
        flat = tf.nest.flatten(batch)
        places = [i for i, value in enumerate(flat) if isinstance(value, tf.Tensor)]
        parts = [_Part(flat[i]) for i in places]
        try:
            strike.fault.strike_inside(_Batch(parts))
        except Exception as error:
            agent.record("note", text=f"strike {number} cannot change this batch: {type(error).__name__}: {error}")
            return batch
        before = _digest(_arrays(batch))
        for i, part in zip(places, parts):
            flat[i] = tf.constant(part.array)
        changed = tf.nest.pack_sequence_as(batch, flat)
        agent.record("strike", strike=number, phase="seen", before=before, after=_digest(_arrays(changed)))
    return changed
