"""The collectives of TensorFlow between processes: those in a function's graph, and those that are issued eagerly.

Nobody sees the operations of a function run. Its collectives are in its graph, and in those of the loops,
branches and functions inside, so all of them are entered, in the order in which they were traced, before the function
is, and over when it is. One in a loop is told once, one in a branch whether or not the branch is taken; both say so.

A collective is paired with its peers by a number, the instance key, which a call takes when it is made; that number
counts the group's collectives on record. A reduction within one process is no collective here.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import math
import os
import sys
from collections.abc import Iterator
from threading import get_ident
from types import FrameType
from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks.tensorflow.training import line_here, training_of
from breakrank_agent.protocol.log import members

WAITS_FOR = "tensorflow"

#: The operations, by the name that the same of torch has on record, which is the one for all frameworks.
OPERATIONS = {
    "CollectiveReduce": "allreduce_",
    "CollectiveReduceV2": "allreduce_",
    "CollectiveGather": "allgather_",
    "CollectiveGatherV2": "allgather_",
    "CollectiveBcastSend": "broadcast_",
    "CollectiveBcastSendV2": "broadcast_",
    "CollectiveBcastRecv": "broadcast_",
    "CollectiveBcastRecvV2": "broadcast_",
    "CollectiveReduceScatterV2": "reduce_scatter_",
    "CollectiveAllToAllV2": "alltoall_",
}
#: Those that strategies issue eagerly, by the function that does it.
EAGER = {
    "collective_reduce_v2": "CollectiveReduceV2",
    "collective_gather_v2": "CollectiveGatherV2",
    "collective_bcast_send": "CollectiveBcastSend",
    "collective_bcast_send_v2": "CollectiveBcastSendV2",
    "collective_bcast_recv": "CollectiveBcastRecv",
    "collective_bcast_recv_v2": "CollectiveBcastRecvV2",
}
REDUCTIONS = {"Add": "SUM", "Mul": "PRODUCT", "Max": "MAX", "Min": "MIN"}
#: Attributes of operations that hold a function, and what a collective in there says of itself.
_INNER = {
    "f": "",
    "body": "in a loop",
    "cond": "in a loop",
    "then_branch": "in a branch",
    "else_branch": "in a branch",
    "branches": "in a branch",
}
#: Of how many of its tensors the record of a call says the shape.
MOST_TENSORS = 16
#: The first instance key that a group gives (CollectiveKeys, INSTANCE_KEY_START_NUMBER).
_FIRST_KEY = 100
#: The seconds after which the coordination service takes a worker for lost, if its configuration does not say.
_LOST_S = 10.0
#: The attributes of an operation that are asked for.
_ATTRIBUTES = ("T", "merge_op", "timeout_seconds", "group_size", "group_key")
#: The collectives of a graph are kept with it, under this name.
_KNOWN = "_breakrank_collectives"
#: So are the user's lines of those that were merged, by the name of the operation.
_SITES = "_breakrank_sites"
#: The file in which the framework hands eager collectives to a thread for each device, and waits.
_LAUNCHER = os.path.join("distribute", "cross_device_ops.py")


class Call(NamedTuple):
    """A collective as the record has it: its name, its group's key and size, all as JSON, its time-out (0: none)."""

    op: str
    group: int
    size: int
    text: str
    timeout_s: float


class Flight(NamedTuple):
    """A collective that was entered: what the record of its completion begins with, and its number."""

    over: str
    number: int


def install(agent: Agent) -> None:
    """See the collectives of each function, and each one that is issued eagerly."""
    from tensorflow.python.ops import gen_collective_ops

    issuing = _Issuing(agent)
    merging = _Merging(agent)
    merging.watch()
    training = training_of(agent)
    training.issue, training.land = issuing.enter, issuing.leave
    # A peer asks for the last of what it gets in a collective when that is over here; there is no exit barrier.
    agent.linger()
    for name, operation in EAGER.items():
        if hasattr(gen_collective_ops, name):
            _wrap_eager(agent, issuing, merging, gen_collective_ops, name, operation)


class _Merging:
    """Merges, which replicas call for and another thread does for all of them at once, with a stack of its own."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.site = ""

    def watch(self) -> None:
        """Keep the user's line while a merge is under way. By hand, since the call gets another function to merge."""
        from tensorflow.python.distribute import distribute_lib

        kind = distribute_lib.ReplicaContextBase
        original = kind.merge_call

        @functools.wraps(original)
        def merge_call(context: Any, merge_fn: Any, args: Any = (), kwargs: Any = None) -> Any:
            site = line_here(self._agent)

            @functools.wraps(merge_fn)
            def merge(*args: Any, **kwargs: Any) -> Any:
                before, self.site = self.site, site
                try:
                    return merge_fn(*args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise
                finally:
                    self.site = before

            try:
                return original(context, merge, args, kwargs)
            except BaseException as error:
                hide(error)
                raise

        kind.merge_call = merge_call


class _Issuing:
    """Enters and leaves collectives, and counts them in their groups."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._counts: dict[int, int] = {}

    def enter(self, graph: Any, captured: Any) -> list[Flight]:
        """Enter each collective of a function that is about to run; `captured` are the values that it takes along."""
        calls = getattr(graph, _KNOWN, None)
        if calls is None:
            calls = list(_calls_of(graph, self._agent, ""))
            setattr(graph, _KNOWN, calls)
        if not calls:
            return []
        keys = _instance_keys(graph, captured, len(calls))
        return [self.issue(call, key) for call, key in zip(calls, keys)]

    def leave(self, flights: list[Flight], error: Optional[BaseException] = None, says: str = "") -> None:
        """Record that collectives are over, or have failed."""
        if error is not None:
            says = members({"error": type(error).__name__})
        for flight in flights:
            self._agent.complete(flight.over, flight.number, says)

    def issue(self, call: Call, key: Optional[int], says: str = "") -> Flight:
        """Enter one collective; a key that is not known is the next one."""
        last = self._counts.get(call.group)
        if last is None:
            self._meet(call)
        number = (last or 0) + 1 if key is None else key - _FIRST_KEY + 1
        self._counts[call.group] = number
        self._agent.reach("collective", call.text, number, says)
        return Flight(members({"op": call.op, "group": str(call.group)}) + ',"c":', number)

    def _meet(self, call: Call) -> None:
        """Record a group at its first call."""
        workers, lost_s = _cluster()
        facts = {"backend": "grpc", "timeout_s": call.timeout_s or None, "lost_s": lost_s}
        self._agent.record("group", group=str(call.group), ranks=list(range(workers)), **facts)


def _cluster() -> tuple[int, float]:
    """Return how many workers there are, and the seconds after which one that is silent is taken for lost."""
    from tensorflow.python.eager import context

    known = context.context()
    server: Any = getattr(known, "_collective_ops_server_def", None)
    jobs = server.cluster.job if server is not None else ()
    service = known.coordination_service
    lost_ms = getattr(service, "heartbeat_timeout_in_ms", 0) if service is not None else 0
    return sum(len(job.tasks) for job in jobs if job.name in ("chief", "worker")), lost_ms / 1000 or _LOST_S


# --- in a graph


def _calls_of(graph: Any, agent: Agent, said: str) -> Iterator[Call]:
    """Yield the collectives between processes of a graph, and of the graphs in it, in the order of tracing."""
    for operation in graph.get_operations():
        if operation.type in OPERATIONS:
            call = _call_of(operation, agent, said)
            if call is not None:
                yield call
        for inner, where in _graphs_in(operation, graph):
            yield from _calls_of(inner, agent, said or where)


def _graphs_in(operation: Any, graph: Any) -> Iterator[tuple[Any, str]]:
    """Yield the graphs that an operation runs, with what a collective in there says of itself."""
    attributes = operation.node_def.attr
    for attribute, where in _INNER.items():
        if attribute not in attributes:
            continue
        value = attributes[attribute]
        for function in [value.func] if value.HasField("func") else value.list.func:
            inner = graph._get_function(function.name)
            if inner is not None and getattr(inner, "graph", None) is not None:
                yield inner.graph, where


def _call_of(operation: Any, agent: Agent, said: str) -> Optional[Call]:
    """Return one collective of a graph; None if it is not between processes, or another local device takes the part."""
    at = 0 if "Recv" in operation.type else 1
    said_of = {name: operation.get_attr(name) for name in _ATTRIBUTES if name in operation.node_def.attr}
    if operation.type.endswith("V2"):
        size, key = (_constant(operation.inputs[i]) for i in (at, at + 1))
    else:
        size, key = said_of.get("group_size"), said_of.get("group_key")
    if size is None or key is None or (operation.device and not operation.device.endswith(":0")):
        return None
    site = getattr(operation.graph, _SITES, {}).get(operation.name) or _line(agent, operation)
    facts = {"shapes": _shapes(operation, at), "dtype": said_of["T"].as_numpy_dtype}
    facts["reduce"] = said_of.get("merge_op")
    return _call(operation.type, size, key, said_of.get("timeout_seconds"), facts, site, said)


def _line(agent: Agent, operation: Any) -> str:
    """Return the innermost line of the user's code that has made an operation."""
    lines = (agent.sites.at(frame.filename, frame.lineno) for frame in reversed(list(operation.traceback)))
    return next(filter(None, lines), "")


def _constant(tensor: Any) -> Optional[int]:
    from tensorflow.python.framework import tensor_util

    value = tensor_util.constant_value(tensor)
    return None if value is None else int(value)


def _shapes(operation: Any, at: int) -> list[list[int]]:
    """Return the shapes of what a collective handles, if all are known; of tensors that were packed, their own."""
    tensors = [operation.inputs[0] if at else operation.outputs[0]]
    packed = operation.inputs[0].op if at else operation
    while packed.type == "Identity":
        packed = packed.inputs[0].op
    parts = packed.inputs[:-1] if packed.type == "ConcatV2" else [packed.outputs[0]]
    if all(part.op.type == "Reshape" for part in parts):
        tensors = [part.op.inputs[0] for part in parts]
    shapes = [tensor.shape for tensor in tensors]
    return [s.as_list() for s in shapes[:MOST_TENSORS]] if all(s.is_fully_defined() for s in shapes) else []


def _call(
    operation: str, size: int, key: int, timeout_s: Any, facts: dict[str, Any], site: str, said: str = ""
) -> Optional[Call]:
    """Return a collective as the record has it; None if all of its group is in this process."""
    if not size > 1 or _cluster()[0] < 2:
        return None
    values: dict[str, Any] = {"op": OPERATIONS[operation], "group": str(key), "size": size}
    if facts["shapes"]:
        values["shapes"] = facts["shapes"]
    values["dtype"] = facts["dtype"].__name__
    reduce = facts["reduce"]
    reduce = reduce.decode() if isinstance(reduce, bytes) else reduce
    optional = {"reduce": REDUCTIONS.get(reduce or "", reduce), "site": site, "said": said, "eager": facts.get("eager")}
    values.update({name: value for name, value in optional.items() if value})
    return Call(OPERATIONS[operation], key, size, members(values) + ',"c":', float(timeout_s or 0))


def _instance_keys(graph: Any, captured: Any, number: int) -> list[Optional[int]]:
    """Return the instance keys that a call of a function has taken, in the order of tracing; None where not known."""
    deferred = getattr(graph, "deferred_internal_captures", ())
    if len(deferred) != number:
        return [None] * number
    try:
        return [int(value.numpy()) for value in list(captured)[-number:]]
    except (AttributeError, TypeError, ValueError):
        return [None] * number


# --- eagerly


def _wrap_eager(agent: Agent, issuing: _Issuing, merging: _Merging, module: Any, name: str, operation: str) -> None:
    """See an operation that is issued eagerly, in whichever thread that is done; in a graph, keep its line.

    By hand, since the result is put on record while a launcher's thread still acts for the main one.
    """
    from tensorflow.python.eager import context

    original: Callable[..., Any] = getattr(module, name)
    signature = inspect.signature(original)
    weighs = "contents" in agent.plan.evidence and OPERATIONS[operation] == "allreduce_"

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        flights: list[Flight] = []
        with _on_behalf(agent) as frame:
            if not agent.over and not agent.busy and context.executing_eagerly():
                said = signature.bind(*args, **kwargs)
                said.apply_defaults()
                call = _eager_call(operation, said.arguments, merging.site or agent.sites.above(frame).line)
                read = members({"in": [_summary(said.arguments["input"])]}) if weighs and call else ""
                flights = [issuing.issue(call, int(said.arguments["instance_key"]), read)] if call else []
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                issuing.leave(flights, error)
                raise
            issuing.leave(flights, says=members({"out": [_summary(result)]}) if weighs and flights else "")
        return _kept(result, merging.site)

    setattr(module, name, collective)


def _kept(made: Any, site: str) -> Any:
    """Return what an operation was made in a graph by, with which the graph then has the user's line."""
    graph = getattr(made, "graph", None)
    if site and graph is not None and hasattr(made, "op"):
        setattr(graph, _SITES, {**getattr(graph, _SITES, {}), made.op.name: site})
    return made


@contextlib.contextmanager
def _on_behalf(agent: Agent) -> Iterator[Optional[FrameType]]:
    """Yield the frame that a collective is issued from. A launcher's thread acts for the main one, which waits."""
    ident = get_ident()
    frame: Optional[FrameType] = sys._getframe(2)
    waiting = sys._current_frames().get(agent.main or 0) if ident != agent.main else None
    if waiting is None or not _is_launching(waiting):
        yield frame
        return
    agent.sequences.acting.add(ident)
    try:
        yield waiting
    finally:
        agent.sequences.acting.discard(ident)


def _is_launching(frame: Optional[FrameType]) -> bool:
    """Return whether a thread waits for those that issue collectives for it."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(_LAUNCHER):
            return True
        frame = frame.f_back
    return False


def _eager_call(operation: str, said: dict[str, Any], site: str) -> Optional[Call]:
    handed = said.get("input")
    shape = list(said["shape"]) if handed is None else handed.shape.as_list()
    dtype = said["T"] if handed is None else handed.dtype
    facts = {"shapes": [shape], "dtype": dtype.as_numpy_dtype, "reduce": said.get("merge_op"), "eager": True}
    return _call(operation, int(said["group_size"]), int(said["group_key"]), said.get("timeout_seconds"), facts, site)


def _summary(tensor: Any) -> dict[str, Any]:
    """Return digest, count, sum, sum of absolute values, maximum and minimum of a dense tensor."""
    import numpy

    array = tensor.numpy()
    facts: dict[str, Any] = {"digest": hashlib.blake2b(array.tobytes(), digest_size=8).hexdigest(), "n": array.size}
    if array.size and array.dtype.kind in "fiu":
        wide = array.astype(numpy.float64 if array.dtype.kind == "f" else numpy.int64)
        values = {"sum": wide.sum(), "abs": abs(wide).sum(), "max": wide.max(), "min": wide.min()}
        facts.update({name: _as_json(value.item()) for name, value in values.items()})
    return facts


def _as_json(value: Any) -> Any:
    """Return a number as JSON has it: what is not finite is a text."""
    return value if math.isfinite(value) else str(value)
