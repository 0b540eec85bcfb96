"""Reads and writes of TensorFlow's variables, by each operation of every thread before it runs.

A variable is known by its handle, whose number is not given out again. A function is one operation here;
which of its variables it reads and which it writes is read from its graph.

One operation on a variable is whole: the kernel holds the variable's lock. So two updates that are one operation each
(`tf.Variable.assign_add`) do each other no harm, and what is on record of them says so. `v.assign(v + 1)` is two
operations, and so is `assign_add` of a Keras variable.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from breakrank_agent.agent.access_log import Span
from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.tensorflow.operations import watch_operations

WAITS_FOR = "tensorflow"

#: Operations that only read a variable, and those that write it without reading.
_READS = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd"))
_BLIND = frozenset(("AssignVariableOp", "ResourceScatterUpdate"))
#: Those that ask for nothing that is in it.
_FORM_ONLY = frozenset(("VariableShape", "VarIsInitializedOp", "DestroyResourceOp", "VarHandleOp"))


class _Use(NamedTuple):
    """One operation's use of a variable. `whole`: it reads and writes at once, and nobody comes in between."""

    mode: str
    whole: bool = False


class _Variable(NamedTuple):
    """A variable as it is on record."""

    key: str
    span: Optional[Span]
    words: str


def install(agent: Agent) -> None:
    """See each operation, if accesses are recorded."""
    if not agent.watches:
        return
    watch_operations(before=_Watch(agent).enter)
    agent.record("note", text="reads and writes of variables are on record", accesses=True)


class _Watch:
    """Records the uses of variables by operations, and lets others move before them."""

    def __init__(self, agent: Agent) -> None:
        from tensorflow.python.framework import dtypes, ops
        from tensorflow.python.ops import resource_variable_ops

        self._agent = agent
        self._resource = dtypes.resource
        self._tensor = ops.EagerTensor
        self._variables = resource_variable_ops.BaseResourceVariable
        self._known: dict[int, _Variable] = {}
        self._functions: dict[str, list[Optional[_Use]]] = {}

    def enter(self, op: Any, inputs: Any) -> None:
        """Let others move before an operation that touches a variable, and record what it does."""
        agent = self._agent
        # Before there are threads, all that the rank does is in order.
        if not agent.accesses.threaded or agent.busy or not agent.here or agent.over:
            return
        name = op if isinstance(op, str) else op.decode()
        uses = list(self._uses(name, inputs))
        if not uses:
            return
        # The two frames above are ours.
        site = agent.sites.above(sys._getframe(2)).line
        if agent.turns is not None:
            agent.turns.point()
        for handle, (mode, whole) in uses:
            key, span, words = self._variable(handle)
            agent.accesses.access(name, mode, key, span, site, tensor=words, whole=whole)
            if words:
                self._known[handle._id] = _Variable(key, span, "")

    def _uses(self, op: str, inputs: Any) -> Iterator[tuple[Any, _Use]]:
        """Yield each variable's handle that is among the inputs of an operation, and what that does with it."""
        for number, given in enumerate(inputs):
            if isinstance(given, self._variables):
                # C++ reads a variable by itself if it wants a tensor.
                yield given.handle, _Use("r")
            elif isinstance(given, self._tensor) and given.dtype == self._resource:
                use = self._use(op, number, given)
                if use is not None:
                    yield given, use

    def _use(self, op: str, number: int, handle: Any) -> Optional[_Use]:
        """Return what an operation does with the variable that is its input `number`; None for no variable."""
        if handle._handle_data is None or op in _FORM_ONLY:
            return None
        if op.startswith("__"):
            uses = self._functions.get(op)
            if uses is None:
                uses = self._functions[op] = _uses_of(op)
            return uses[number] if number < len(uses) else None
        return _use_of(op)

    def _variable(self, handle: Any) -> _Variable:
        known = self._known.get(handle._id)
        if known is None:
            known = self._known[handle._id] = _describe(handle, f"@{self._agent.accesses.number('storage')}")
        return known


def _use_of(op: str) -> Optional[_Use]:
    """Return what one operation does with its variable, or None if it touches none."""
    if op in _READS:
        return _Use("r")
    if op in _BLIND:
        return _Use("w")
    if op.startswith(("Assign", "Resource")):
        return _Use("rw", whole=True)
    return None


def _uses_of(function: str) -> list[Optional[_Use]]:
    """Return what a function does with each of its inputs, from its graph; what it hands on counts as an update."""
    from tensorflow.python.eager import context

    definition = context.context().get_function_def(function)
    ops: dict[str, list[str]] = {argument.name: [] for argument in definition.signature.input_arg}
    for node in definition.node_def:
        for name in node.input:
            if name in ops and node.op not in _FORM_ONLY:
                ops[name].append(node.op)
    return [_together([_use_of(op) or _Use("rw") for op in used]) for used in ops.values()]


def _together(uses: list[_Use]) -> Optional[_Use]:
    """Return what several operations do together: whole is only what is one."""
    if not uses:
        return None
    if len(uses) == 1:
        return uses[0]
    modes = "".join(use.mode for use in uses)
    return _Use("".join(letter for letter in "rw" if letter in modes))


def _describe(handle: Any, key: str) -> _Variable:
    """Return what is said of a variable: its key, its bytes, and its dtype and shape in words."""
    import tensorflow as tf

    parts = handle._handle_data.shape_and_type if handle._handle_data.is_set else ()
    if not parts:
        return _Variable(key, None, "")
    dtype, shape = tf.as_dtype(parts[0].dtype), tf.TensorShape(parts[0].shape)
    words = f"{dtype.name} of {'×'.join(map(str, shape)) or 'one number'}"
    size = shape.num_elements()
    span = Span(0, size * dtype.size) if size is not None and dtype.size else None
    return _Variable(key, span, words)
