"""Assignments to a variable that no strategy reduces: they may set its replicas apart. The line is on record.

A strategy reduces what its replicas assign if the variable says how (its aggregation). Assignments that pass
that by are recorded: they are no fault by themselves, as equal values may be assigned. One in a function is seen when
that is traced.
"""

from __future__ import annotations

import sys
import threading
import weakref
from types import FrameType
from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.parameter_digest import in_parts
from breakrank_agent.hooks.tensorflow.own_values import OwnValues
from breakrank_agent.hooks.tensorflow.training import Training, line_here, training_of

WAITS_FOR = "tensorflow"

_METHODS = ("assign", "assign_add", "assign_sub")
#: The lines that assign to variables in a graph are kept with it, under this name.
_LINES = "_breakrank_assigned"


def install(agent: Agent) -> None:
    """Wrap what assigns to variables, and to those that a strategy distributes."""
    from tensorflow.python.distribute import values
    from tensorflow.python.ops import resource_variable_ops

    if agent.plan.digests == "none":
        return
    seen = _Assignments(agent, training_of(agent))
    for kind in (values.DistributedVariable, values.SyncOnReadVariable):
        for name in _METHODS:
            seen.wrap(kind, name, seen.of_all)
    for kind in (resource_variable_ops.BaseResourceVariable, resource_variable_ops.ResourceVariable):
        for name in _METHODS:
            seen.wrap(kind, name, seen.of_one)
    agent.on.step_end.append(seen.record)
    agent.on.step_end.append(OwnValues(agent, training_of(agent), seen.unreduced).tell)


class _Assignments:
    """Sees the outermost assignments of the user's code; they are on record at the end of their step."""

    def __init__(self, agent: Agent, training: Training) -> None:
        self._agent = agent
        self._training = training
        self._local = threading.local()
        #: By the identity of a variable, and how it was assigned to: the variable, and the line that did so first.
        self._seen: dict[tuple[int, str], tuple[weakref.ref[Any], str]] = {}
        self._recorded: set[tuple[int, str]] = set()

    def wrap(self, kind: Any, name: str, how: Any) -> None:
        """Look at the calls of a method that no other of them has led to."""
        if name not in vars(kind):
            return

        def assigning(variable: Any, *_: Any, **__: Any) -> bool:
            if self._agent.over or self._agent.busy or getattr(self._local, "inside", False):
                return False
            self._note(variable, how(variable, sys._getframe(2)))
            self._training.assign(_whole(variable))
            self._keep_line(variable)
            self._local.inside = True
            return True

        def assigned(outermost: bool, _: Any) -> None:
            if outermost:
                self._local.inside = False

        interpose(kind, name, assigning, assigned, failed=assigned)

    def of_all(self, variable: Any, caller: FrameType) -> str:
        """Return how replicas come to values of their own, where a distributed variable is assigned to."""
        from tensorflow.python.distribute import distribute_lib

        if distribute_lib.get_update_replica_id() is not None:
            return ""
        strategy = variable.distribute_strategy
        if distribute_lib.in_cross_replica_context() or not distribute_lib.has_strategy():
            alone = strategy.num_replicas_in_sync > len(variable.values)
            return "worker_by_worker" if alone else ""
        return "replica_by_replica" if getattr(variable.aggregation, "name", "") == "NONE" else ""

    def of_one(self, variable: Any, caller: FrameType) -> str:
        """Return how a variable is assigned to that is one component of a distributed one, or in no strategy at all."""
        from tensorflow.python.distribute import distribute_lib

        if distribute_lib.get_update_replica_id() is not None:
            return ""
        if _whole(variable) is not variable:
            return "in_one_component_alone" if self._is_users(caller) else ""
        if distribute_lib.in_cross_replica_context() or not distribute_lib.has_strategy():
            return ""
        several = distribute_lib.get_strategy().extended.worker_devices
        return "replica_after_replica" if len(several) > 1 else "replica_by_replica"

    def _is_users(self, caller: FrameType) -> bool:
        """Return whether the user's code calls, itself or as TensorFlow has rewritten it."""
        return "/autograph/" in caller.f_code.co_filename or not self._agent.sites.is_foreign(caller.f_code)

    def _note(self, variable: Any, how: str) -> None:
        whole = _whole(variable) if how else None
        known, _ = self._seen.get((id(whole), how), (None, ""))
        if whole is not None and (known is None or known() is not whole):
            self._seen[id(whole), how] = weakref.ref(whole), line_here(self._agent)

    def _keep_line(self, variable: Any) -> None:
        """Keep the line with the graph that is being traced, if it is the first that assigns to the variable there.

        If none is traced, the line is kept with the training.
        """
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        whole = _whole(variable)
        if context.executing_eagerly():
            known = self._training.assigned_at
            known[id(whole)] = known.get(id(whole)) or line_here(self._agent)
            return
        graph = ops.get_default_graph()
        if id(whole) not in lines_of(graph):
            setattr(graph, _LINES, {**lines_of(graph), id(whole): line_here(self._agent)})

    def unreduced(self) -> list[Any]:
        """Return the variables that were assigned to with nothing to reduce, each once."""
        found = {id(variable): variable for known, _ in list(self._seen.values()) if (variable := known()) is not None}
        return [*found.values()]

    def record(self) -> None:
        """Record what is new, of the variables that are trained."""
        new = [(key, known(), line) for key, (known, line) in list(self._seen.items()) if key not in self._recorded]
        grouped = in_parts(self._training.parameters()) if new else []
        for key, variable, line in new:
            parts = [number for number, part in enumerate(grouped) if any(one is variable for one in part)]
            if parts:
                self._recorded.add(key)
                self._agent.record("assigned", parts=parts, how=key[1], site=line)


def lines_of(graph: Any) -> dict[int, str]:
    """Return the line of the user's code that first assigns to each variable in a graph, by the variable's identity."""
    lines: dict[int, str] = getattr(graph, _LINES, {})
    return lines


def _whole(variable: Any) -> Any:
    """Return the distributed variable that one is a component of, or the variable itself."""
    for holder in (variable, getattr(variable, "_handle", None)):
        container = getattr(holder, "__dict__", {}).get("_distributed_container")
        if container is not None:
            return container()
    return variable
