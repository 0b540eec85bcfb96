"""Find the replicas whose gradients do not reach an update, in a step that runs operation by operation.

A replica's gradients are followed through each operation that runs eagerly, up to those that write a trained variable.
The records are those of a graph, see `breakrank_agent.hooks.tensorflow.gradient_flow_graph`, and cover whole steps:
from the first gradients to the end of the step. A value that comes from code which is not seen, as from numpy, may be
made of anything: nothing is recorded of the variable that it is written into. The same holds of a single number, which
may have been one of Python's in between.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.agent.parameter_digest import in_parts
from breakrank_agent.hooks.tensorflow.collectives import OPERATIONS
from breakrank_agent.hooks.tensorflow.gradient_flow_graph import FORM_ONLY, READS, Lack, replica_here, watch_gradients
from breakrank_agent.hooks.tensorflow.operations import watch_operations
from breakrank_agent.hooks.tensorflow.training import Training, training_of
from breakrank_agent.hooks.tensorflow.variables import components

WAITS_FOR = "tensorflow"

#: Operations that call a function, which may only read the variables it is handed, and how the name of one begins.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile", "EagerPyFunc")
_FUNCTION = "__"
#: Replaces what a variable held.
_REPLACES = "AssignVariableOp"
#: The place of a collective's instance key among its inputs, by the end of the operation's name.
_KEYS = {"RecvV2": 2, "V2": 3}

#: The origins of a value: numbers of the replicas whose gradients it has, and the three below.
Origins = frozenset[int]
_NOTHING: Origins = frozenset()
#: Not seen being made; held by a variable that is not trained; older than the step's gradients.
_UNSEEN, _KEPT, _OLDER = -1, -2, -3


def install(agent: Agent) -> None:
    """Mark the gradients that are taken eagerly, and follow them to the end of the step."""
    from tensorflow.python.framework import ops

    if agent.plan.digests == "none":
        return
    flow = _Flow(agent, training_of(agent))
    watch_gradients(flow.mark)
    watch_operations(before=flow.enter, made=flow.follow)
    flow.watch_copies(ops._EagerTensorBase)
    agent.on.step_end.append(flow.record)


class _Inputs(NamedTuple):
    """The inputs of an operation: the origins of its values, and the variables, by the numbers of their handles."""

    origins: Origins
    handles: list[int]


class _Flow:
    """The origins of the values of this step, from its first gradients on; tensors go by their numbers."""

    def __init__(self, agent: Agent, training: Training) -> None:
        from tensorflow.python.framework import dtypes, ops

        self._agent = agent
        self._training = training
        self._tensor = ops.EagerTensor
        self._resource = dtypes.resource
        self._lock = threading.Lock()
        self._told: set[tuple[Lack, int]] = set()
        self._forget()

    def _forget(self) -> None:
        """Begin with the next step."""
        self._replicas: set[int] = set()
        #: The number of the first gradient: whatever has a smaller one was there before.
        self._first = 0
        self._made: dict[int, Origins] = {}
        self._held: dict[int, Origins] = {}
        #: By variable, what was written into it, and what may have been.
        self._written: dict[int, Origins] = {}
        self._maybe: dict[int, Origins] = {}
        #: By instance key, what goes into a collective.
        self._reduced: dict[int, Origins] = {}
        self._trained: set[int] = set()

    @property
    def _passes(self) -> bool:
        return not self._replicas or self._agent.over or self._agent.busy

    def mark(self, gradients: Any) -> None:
        """Mark the gradients that the replica whose code runs now has taken."""
        import tensorflow as tf

        if self._agent.over or self._agent.busy or not tf.executing_eagerly():
            return
        taken = [one for one in tf.nest.flatten(gradients, expand_composites=True) if isinstance(one, self._tensor)]
        if not taken:
            return
        if not self._replicas:
            self._first = min(one._id for one in taken)
            self._trained = {handle for one in self._training.parameters() for handle in _handles(one)}
        replica = replica_here()
        self._replicas.add(replica)
        for one in taken:
            self._made[one._id] = self._made.get(one._id, _NOTHING) | {replica}

    def enter(self, op: Any, inputs: Any) -> None:
        """See what goes into a collective, before any replica gets what comes out."""
        if not self._passes and _name(op) in OPERATIONS:
            key = _instance_key(_name(op), inputs)
            handed = self._inputs(inputs).origins
            with self._lock:
                self._reduced[key] = self._reduced.get(key, _NOTHING) | handed

    def follow(self, op: Any, inputs: Any, result: Any) -> None:
        """See what an operation has made of what."""
        if self._passes:
            return
        name, handed = _name(op), self._inputs(inputs)
        origins = _NOTHING if name in FORM_ONLY else handed.origins
        origins = origins.union(*(self._holds(handle) for handle in handed.handles))
        if name in OPERATIONS:
            origins = self._reduced.get(_instance_key(name, inputs), origins)
        if name not in READS:
            self._write(name, handed, origins)
        for one in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(one, self._tensor):
                self._made[one._id] = origins

    def _write(self, name: str, handed: _Inputs, origins: Origins) -> None:
        """Take down what an operation writes into the variables that it was handed, or may write."""
        calls = name in _CALLS or name.startswith(_FUNCTION)
        kind = self._maybe if calls else self._written
        for handle in handed.handles:
            kind[handle] = kind.get(handle, _NOTHING) | origins
            self._held[handle] = handed.origins if name == _REPLACES else self._holds(handle) | origins

    def _holds(self, handle: int) -> Origins:
        """Return what a variable holds."""
        held = self._held.get(handle, _NOTHING)
        return held if handle in self._trained else held | {_KEPT}

    def _inputs(self, inputs: Any) -> _Inputs:
        origins, handles = _NOTHING, []
        for one in _flat(inputs):
            if not isinstance(one, self._tensor):
                origins |= self._of_another(one)
            elif one.dtype == self._resource:
                handles.append(one._id)
            else:
                origins |= self._of(one)
        return _Inputs(origins, handles)

    def _of(self, tensor: Any) -> Origins:
        """Return what a tensor is made of."""
        known = self._made.get(tensor._id)
        if known is not None:
            return known
        if not tensor.dtype.is_floating or tensor.shape.rank == 0:
            return _NOTHING
        return frozenset((_OLDER if tensor._id < self._first else _UNSEEN,))

    def _of_another(self, one: Any) -> Origins:
        """Return what an input is made of that is no tensor: a variable that is read on the way, an array, a number."""
        handle = getattr(one, "handle", None)
        if isinstance(handle, self._tensor):
            return self._holds(handle._id)
        return frozenset((_UNSEEN,)) if getattr(one, "ndim", 0) else _NOTHING

    def watch_copies(self, kind: Any) -> None:
        """See the copies that are made of tensors, from device to device, by no operation."""

        def copied(tensor: Any, copy: Any) -> None:
            if not self._passes:
                self._made[copy._id] = self._of(tensor)

        interpose(kind, "_copy_nograd", receiver, copied)

    def record(self) -> None:
        """Record whose gradients have not reached the updates of this step, if that is new."""
        parameters = self._training.parameters() if self._replicas else []
        lacks: dict[Lack, list[int]] = {}
        for number, part in enumerate(in_parts(parameters) if parameters else ()):
            lack = next(filter(None, map(self._lack_of, part)), None)
            if lack is not None and (lack, number) not in self._told:
                self._told.add((lack, number))
                lacks.setdefault(lack, []).append(number)
        for lack, parts in lacks.items():
            self._agent.record("lack", parts=parts, **lack._asdict())
        self._forget()

    def _lack_of(self, variable: Any) -> Optional[Lack]:
        """Return what a variable lacks that was updated, as far as it is sure."""
        handles = _handles(variable)
        written = [self._written[handle] for handle in handles if handle in self._written]
        origins = _NOTHING.union(*written, *(self._maybe.get(handle, _NOTHING) for handle in handles))
        lacks, kept = self._replicas - origins, _KEPT in origins and not origins & self._replicas
        older = _OLDER in origins and not kept and lacks == self._replicas
        if not written or not lacks or older or _UNSEEN in origins or variable.shape.rank == 0:
            return None
        site = self._training.assigned_at.get(id(variable), "")
        return Lack(tuple(sorted(lacks)), len(self._replicas), kept, site)


def _handles(variable: Any) -> list[int]:
    """Return the numbers of the handles of a variable's components."""
    return [one.handle._id for one in components(variable) if hasattr(getattr(one, "handle", None), "_id")]


def _flat(inputs: Any) -> list[Any]:
    return [one for item in inputs for one in (item if isinstance(item, (list, tuple)) else (item,))]


def _name(op: Any) -> str:
    return op.decode() if isinstance(op, bytes) else str(op)


def _instance_key(name: str, inputs: Any) -> int:
    """Return the number by which a collective finds its peers; those of an older kind count as one."""
    place = next((place for end, place in _KEYS.items() if name.endswith(end)), None)
    return -1 if place is None else int(inputs[place])
