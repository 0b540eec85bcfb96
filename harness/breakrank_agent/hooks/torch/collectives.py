"""Every collective of torch, seen before it blocks: a kernel at the `BackendSelect` key of each c10d operator.

The key is in the dispatch set of every call, so those of DDP's C++ reducer, of functional collectives and of subgroups
are seen too. Overriding the CPU key instead deadlocks (the GIL against gloo's work mutex), so the call goes on by
`redispatch` to the keys after this one. Its completion is seen by `async_work`.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.services import WorkTracker
from breakrank_agent.agent.thread_scheduler import Turns
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks.torch.async_work import Flight, Part
from breakrank_agent.hooks.torch.collective_calls import Call, know_comm_hooks, pass_over_torch, said
from breakrank_agent.hooks.torch.collective_faults import changeable
from breakrank_agent.hooks.torch.process_groups import Groups

WAITS_FOR = "torch"
AFTER = ("torch.async_work", "torch.collective_contents")

OPERATORS = (
    "allreduce_",
    "allreduce_coalesced_",
    "broadcast_",
    "allgather_",
    "_allgather_base_",
    "allgather_coalesced_",
    "allgather_into_tensor_coalesced_",
    "reduce_scatter_",
    "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced_",
    "reduce_",
    "gather_",
    "scatter_",
    "alltoall_",
    "alltoall_base_",
    "barrier",
    "monitored_barrier_",
    "send",
    "recv_",
    "recv_any_source_",
)

#: Methods of a process group that reduce. Their operators get the reduction boxed, and no longer readable.
REDUCING = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced",
)
#: Functional collectives that reduce; they call the operators from C++.
FUNCTIONAL = (
    "all_reduce",
    "all_reduce_",
    "all_reduce_coalesced",
    "all_reduce_coalesced_",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_tensor_out",
)


#: The names of reductions that were asked for: an enumeration of C++ looks through itself for one.
_names: dict[Any, str] = {}

_libraries: list[Any] = []  # a torch.library.Library lives as long as it is referred to


def install(agent: Agent) -> None:
    """Register one kernel per operator that this torch has."""
    import torch

    works = agent.services.works
    if not torch.distributed.is_available() or works is None:
        return
    after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    pass_over_torch()
    know_comm_hooks()
    library = torch.library.Library("c10d", "IMPL")
    groups = Groups(agent)
    for name in OPERATORS:
        packet = getattr(torch.ops.c10d, name, None)
        if packet is not None:
            kernel = _kernel(agent, works, name, packet.default, after, groups)
            if agent.injector.strikes_on("collective"):
                kernel = changeable(agent, name, packet.default, kernel, said)
            library.impl(name, kernel, "BackendSelect", with_keyset=True)
    functional = torch.library.Library("_c10d_functional", "IMPL")
    for name in FUNCTIONAL:
        packet = getattr(torch.ops._c10d_functional, name, None)
        if packet is not None:
            functional.impl(name, _functional(packet.default, after), "BackendSelect", with_keyset=True)
    _libraries.extend((library, functional))
    for name in REDUCING:
        if hasattr(torch.distributed.ProcessGroup, name):
            _watch_reduction(torch.distributed.ProcessGroup, name)


def _kernel(
    agent: Agent, works: WorkTracker, name: str, operator: Any, after: Any, groups: Groups
) -> Callable[..., Any]:
    call = Call(agent, name, operator, groups)
    redispatch, recorder, services = operator.redispatch, agent.recorder, agent.services
    watches, contents = agent.watches, services.contents

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        facts = None if recorder.over or (agent.quiet and agent.busy) else call.describe(args)
        if facts is None:
            return redispatch(keyset & after, *args, **kwargs)
        number = next(facts.numbers)
        if services.tensors is not None:
            services.tensors.take(operator, args, facts.asked)
        watched = contents.watch(name, call.names, args, facts) if contents is not None else None
        agent.reach("collective", facts.text, number, "" if watched is None else watched.before())
        flight = Flight(facts.over, number, watched, facts.on_cpu)
        if watches and agent.turns is not None:
            flight.part = _take_part(agent.turns, name, facts.part(number))
        try:
            result = redispatch(keyset & after, *args, **kwargs)
        except BaseException as error:
            hide(error)
            works.fail(flight, error)
            raise
        works.fly(flight, result)
        if facts.asked and services.unawaited is not None:
            agent.guard(services.unawaited.start, name, flight.work, call.names, args)
        return result

    return kernel


def _take_part(turns: Turns, name: str, part: Part) -> Part:
    """Under a controlled schedule, wait until all others have come; a work is waited for later, if Python has it."""
    if part.key and part.asked:
        turns.tell({"issued": [part.key, part.size]})
    elif part.key:
        turns.ask({"collective": [name, part.key, part.size]}, waits=True)
    return part


def _functional(operator: Any, after: Any) -> Callable[..., Any]:
    redispatch = operator.redispatch
    names = [argument.name for argument in operator._schema.arguments]
    at = names.index("reduce_op")

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        said.reduce = str(args[at] if at < len(args) else kwargs.get("reduce_op", "")).upper()
        try:
            return redispatch(keyset & after, *args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        finally:
            said.reduce = ""

    return kernel


def _watch_reduction(kind: Any, name: str) -> None:
    """Keep what a method of a process group is asked to reduce by, for the operator that it calls.

    By hand, as the kernel: both are part of what each collective costs.
    """
    original = getattr(kind, name)

    def reducing(*args: Any, **kwargs: Any) -> Any:
        said.reduce = _reduction(args, kwargs)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        finally:
            said.reduce = ""

    setattr(kind, name, functools.update_wrapper(reducing, original))


def _reduction(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the name of a reduction among arguments: in the options, or by itself."""
    for value in (*args[2:], *kwargs.values()):
        named = getattr(value, "reduceOp", value)
        kind = getattr(named, "op", named)
        if type(kind).__name__ == "RedOpType":
            return _names.get(kind) or _names.setdefault(kind, str(kind.name))
    return "SUM"
