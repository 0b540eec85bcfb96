"""Meters of the census for TensorFlow: tensors and variables by the line that made them, and traced functions.

Tensors are those of Python, made by operations that run eagerly. A tensor inside of a function's graph that runs
is freed by TensorFlow itself, and is not seen; a graph that stays is: each new trace of a function keeps all of it.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.call_sites import Site
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.agent.services import CensusTaker
from breakrank_agent.hooks.python.census import Line, add_up, flat
from breakrank_agent.hooks.tensorflow.operations import watch_operations

WAITS_FOR = "tensorflow"
AFTER = ("python.census",)

#: The operation whose result keeps a resource's memory, which is counted as a variable.
_MAKES_VARIABLE = "VarHandleOp"
#: The least number of tensors at which the dead ones among them are looked for.
MANY = 4096


def install(agent: Agent) -> None:
    """Add TensorFlow's meters to the census, if there is one."""
    census = agent.services.census
    if census is None:
        return
    from tensorflow.python.framework import func_graph

    tensors, traces = _Tensors(agent, census), _Traces(census)
    census.meters += [tensors.count, tensors.count_variables, traces.count]
    watch_operations(after=tensors.see)
    traces.watch(func_graph.FuncGraph)


class _Tensors:
    """All tensors of Python that are alive, held weakly."""

    def __init__(self, agent: Agent, census: CensusTaker) -> None:
        from tensorflow.python.framework import dtypes, ops

        self._agent = agent
        self._sites = census.sites
        self._totals = census.totals
        self._tensor = ops.EagerTensor
        self._resource = dtypes.resource
        self._known: dict[int, tuple[ref[Any], Site, bool]] = {}
        #: Known tensors are looked through for dead ones when there are this many: censuses may be far apart.
        self._limit = MANY
        census.passes.append(lambda kind: issubclass(kind, (self._tensor, ref)))
        # A trace brings thousands of objects of TensorFlow's along; it is counted itself.
        census.passes.append(lambda kind: kind.__module__.partition(".")[0] in ("tensorflow", "keras"))

    def see(self, op: Any, result: Any) -> None:
        """Take note of what an operation has made."""
        if not self._agent.busy and self._agent.here:
            site = None
            for tensor in flat(result, self._tensor):
                site = site or self._sites.here()
                self._known[tensor._id] = ref(tensor), site, op == _MAKES_VARIABLE
            if len(self._known) > self._limit:
                self._forget_dead()

    def _forget_dead(self) -> None:
        self._known = {number: known for number, known in self._known.items() if known[0]() is not None}
        self._limit = max(MANY, 2 * len(self._known))

    def count(self) -> list[Line]:
        """Return the live tensors by where they were made."""
        self._forget_dead()
        found = []
        for weak, site, variable in self._known.values():
            tensor = weak()
            if tensor is not None and not variable and tensor.dtype != self._resource:
                found.append((site, 1, _size(tensor.dtype, tensor.shape)))
        self._totals.update(bytes=sum(size for _, _, size in found), tensors=len(found))
        return add_up("tensor", found)

    def count_variables(self) -> list[Line]:
        """Return the live variables by where they were made."""
        found = []
        for weak, site, variable in self._known.values():
            handle = weak()
            if variable and handle is not None:
                parts = handle._handle_data.shape_and_type if handle._handle_data is not None else ()
                found.append((site, 1, _size_of_parts(parts)))
        return add_up("variable", found)


def _size(dtype: Any, shape: Any) -> int:
    """Return the bytes of a dense tensor; 0 for one of text, whose size is not told."""
    return int((shape.num_elements() or 0) * dtype.size)


def _size_of_parts(parts: Any) -> int:
    import tensorflow as tf

    return sum(_size(tf.as_dtype(part.dtype), tf.TensorShape(part.shape)) for part in parts)


class _Traces:
    """The graphs of functions that are alive, by the line whose call has traced them, held weakly."""

    def __init__(self, census: CensusTaker) -> None:
        self._sites = census.sites
        self._known: list[tuple[ref[Any], Site]] = []

    def watch(self, kind: Any) -> None:
        """See each graph that is made for a function."""

        def made(graph: Any, _: Any) -> None:
            # A graph that belongs to another one lives as long as that.
            if getattr(graph, "outer_graph", None) is None or not hasattr(graph.outer_graph, "outer_graph"):
                self._known.append((ref(graph), self._sites.here()))

        interpose(kind, "__init__", receiver, made)

    def count(self) -> list[Line]:
        """Return the live graphs."""
        self._known = [(weak, site) for weak, site in self._known if weak() is not None]
        return add_up("trace", ((site, 1, 0) for _, site in self._known))
