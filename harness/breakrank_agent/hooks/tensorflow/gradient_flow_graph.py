"""Find the replicas whose gradients do not reach an update in the graph of a function.

A replica that took gradients gives something to an update if some way through the graph leads from those to it. One
without such a way is on record: zeros were given in their place, a merge took others', or what was kept from an earlier
step is applied. That is no fault by itself. It is looked for once in each function, when it has been traced and run.

A graph says what is computed of what, not the values: gradients that are multiplied by nought do reach the update.
A step that runs operation by operation, outside of any function, leaves no graph: see
`breakrank_agent.hooks.tensorflow.gradient_flow_eager`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.parameter_digest import in_parts
from breakrank_agent.hooks.tensorflow.assignments import lines_of
from breakrank_agent.hooks.tensorflow.training import Training, training_of
from breakrank_agent.hooks.tensorflow.variables import components

WAITS_FOR = "tensorflow"

#: Operations that ask for nothing that is in their input but its form.
FORM_ONLY = frozenset(("ZerosLike", "OnesLike", "Shape", "ShapeN", "Size", "Rank", "VariableShape"))
#: Those that only read a variable.
READS = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp"))
#: The replica that each gradient of a graph was taken by is kept with the graph, under this name.
_TAKEN = "_breakrank_taken"


def install(agent: Agent) -> None:
    """Mark the gradients that are taken in a graph, and look at the graph after the step that it was first run in."""
    if agent.plan.digests == "none":
        return
    updates = _Updates(agent, training_of(agent))
    watch_gradients(updates.mark)
    agent.on.step_end.append(updates.record)


def watch_gradients(mark: Callable[[Any], None]) -> None:
    """Have the gradients shown that any tape takes."""
    from tensorflow.python.eager import backprop

    interpose(backprop.GradientTape, "gradient", after=lambda _, taken: mark(taken))


def replica_here() -> int:
    """Return the number of the replica whose code is being run, or traced; 0 where there is none."""
    import tensorflow as tf

    # The property of that name may be a tensor, made anew in the graph.
    replica = getattr(tf.distribute.get_replica_context(), "_replica_id_in_sync_group", 0)
    return replica if isinstance(replica, int) else 0


class Lack(NamedTuple):
    """The replicas whose gradients do not reach an update, of how many, and what is applied in their place."""

    replicas: tuple[int, ...]
    of: int
    kept: bool
    site: str


class _Updates:
    """The graphs in which gradients were taken, and have not been looked at."""

    def __init__(self, agent: Agent, training: Training) -> None:
        self._agent = agent
        self._training = training
        self._graphs: list[Any] = []

    def mark(self, gradients: Any) -> None:
        """Keep with the graph that is being traced which replica has taken these gradients."""
        import tensorflow as tf
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        if self._agent.over or context.executing_eagerly():
            return
        graph = ops.get_default_graph()
        if not hasattr(graph, _TAKEN):
            setattr(graph, _TAKEN, {})
            self._graphs.append(graph)
        replica, taken = replica_here(), getattr(graph, _TAKEN)
        for one in tf.nest.flatten(gradients, expand_composites=True):
            if one is not None:
                taken.setdefault(one.name, set()).add(replica)

    def record(self) -> None:
        """Record whose gradients do not reach the updates, for each graph that is new."""
        parameters = self._training.parameters()
        if not parameters:
            return
        graphs, self._graphs = self._graphs, []
        for graph in graphs:
            ways = _Ways(graph, parameters)
            lacks: dict[Lack, list[int]] = {}
            for number, part in enumerate(in_parts(parameters)):
                lack = _lack_of(part, ways, graph)
                if lack is not None:
                    lacks.setdefault(lack, []).append(number)
            for lack, parts in lacks.items():
                self._agent.record("lack", parts=parts, **lack._asdict())


def _lack_of(part: list[Any], ways: _Ways, graph: Any) -> Optional[Lack]:
    """Return what one part of the parameters lacks in a graph that updates it: the first of it that lacks something."""
    for variable in part:
        reached, kept = ways.into(variable)
        lacks = ways.replicas - reached
        if ways.updated(variable) and lacks:
            site = lines_of(graph).get(id(variable), "")
            return Lack(tuple(sorted(lacks)), len(ways.replicas), kept and not reached, site)
    return None


class _Ways:
    """The ways through a graph that lead into updates of variables."""

    def __init__(self, graph: Any, parameters: list[Any]) -> None:
        self._taken: dict[str, set[int]] = getattr(graph, _TAKEN)
        self.replicas = set().union(*self._taken.values())
        #: The names that the handles of variables have in the graph.
        self._handles = {id(outer): inner.name for outer, inner in graph.captures}
        self._trained = {name for variable in parameters for name in self._names(variable)}
        operations = graph.get_operations()
        self._places = {operation.name: place for place, operation in enumerate(operations)}
        #: By the name of a handle, the operations that may write the variable, in the order of tracing.
        self._writes: dict[str, list[Any]] = {}
        for operation in operations:
            for name in _variables_of(operation) if operation.type not in READS else ():
                self._writes.setdefault(name, []).append(operation)

    def _names(self, variable: Any) -> list[str]:
        handles = [id(getattr(component, "handle", None)) for component in components(variable)]
        return [self._handles[handle] for handle in handles if handle in self._handles]

    def updated(self, variable: Any) -> bool:
        """Return whether the graph updates a variable."""
        return any(self._writes.get(name) for name in self._names(variable))

    def into(self, variable: Any) -> tuple[set[int], bool]:
        """Return the replicas whose gradients reach a variable, and whether what other variables held does."""
        updates = [one for name in self._names(variable) for one in self._writes.get(name, ())]
        left = [value for one in updates for value in (*one.inputs, *self._written_before(one))]
        kept = any(self._holds_more(one) for one in updates)
        reached: set[int] = set()
        seen: set[str] = set()
        while left:
            value = left.pop()
            if value.name in seen:
                continue
            seen.add(value.name)
            if value.name in self._taken:
                reached |= self._taken[value.name]
            else:
                kept = kept or self._holds_more(value.op)
                left += (*_made_of(value), *self._written_before(value.op))
        return reached, kept

    def _holds_more(self, operation: Any) -> bool:
        """Return whether an operation is handed a variable that is not trained."""
        return any(name not in self._trained for name in _variables_of(operation))

    def _written_before(self, operation: Any) -> Iterator[Any]:
        """Yield what was written into the variables of an operation by those traced before it."""
        place = self._places[operation.name]
        for name in _variables_of(operation):
            for other in self._writes.get(name, ()):
                if self._places[other.name] < place:
                    yield from other.inputs


def _made_of(value: Any) -> list[Any]:
    """Return what a value is computed of: of what a branch hands out that is sure to be taken, what that depends on."""
    operation = value.op
    if operation.type in FORM_ONLY:
        return []
    branch = _sure_branch(operation)
    if branch is None:
        return list(operation.inputs)
    given = {one.name: number for number, one in enumerate(branch.inputs, 1)}
    left, seen = [branch.outputs[value.value_index]], set()
    while left:
        inner = left.pop()
        if inner.name not in seen:
            seen.add(inner.name)
            left += _made_of(inner)
    return [operation.inputs[given[name]] for name in seen if name in given]


def _sure_branch(operation: Any) -> Any:
    """Return the graph of the branch that is taken whatever comes, as where it is asked which replica this is."""
    from tensorflow.python.framework import tensor_util

    if operation.type not in ("If", "StatelessIf"):
        return None
    condition = tensor_util.constant_value(operation.inputs[0])
    if condition is None:
        return None
    function = operation.graph._get_function(operation.get_attr("then_branch" if condition else "else_branch").name)
    return getattr(function, "graph", None)


def _variables_of(operation: Any) -> list[str]:
    """Return the names of the handles among the inputs of an operation."""
    return [value.name for value in operation.inputs if value.dtype.name == "resource"]
