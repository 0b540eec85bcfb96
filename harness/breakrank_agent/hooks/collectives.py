"""Every collective of torch, seen before it blocks: a kernel at the `BackendSelect` key of each c10d operator.

The key is in the dispatch set of every call, so those of DDP's C++ reducer, of functional collectives and of subgroups
are seen too. Overriding the CPU key instead deadlocks (the GIL against gloo's work mutex), so the call goes on by
`redispatch` to the keys after this one.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

from breakrank_agent.frames import hide
from breakrank_agent.probe import Agent

WAITS_FOR = "torch"

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

#: Functions in which every rank waits for all others in the store, which no operator shows.
TOGETHER = ("init_process_group", "new_group")

#: Arguments that name a rank of the group.
ROOTS = ("root_rank", "dst", "src")

_library: list[Any] = []  # a torch.library.Library lives as long as it is referred to


def install(agent: Agent) -> None:
    """Register one kernel per operator that this torch has."""
    import torch

    if not torch.distributed.is_available():
        return
    library = torch.library.Library("c10d", "IMPL")
    after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    for name in OPERATORS:
        packet = getattr(torch.ops.c10d, name, None)
        if packet is not None:
            library.impl(name, _kernel(agent, name, packet.default, after), "BackendSelect", with_keyset=True)
    _library.append(library)
    if agent.controlled:
        for name in TOGETHER:
            _announce(agent, name)


def _kernel(agent: Agent, name: str, operator: Any, after: Any) -> Callable[..., Any]:
    describe = _describer(operator)
    redispatch = operator.redispatch

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if not agent.busy:
            facts = describe(args)
            agent.reach("collective", op=name, **facts)
            if agent.controlled and agent.here and agent.channel is not None:
                agent.channel.ask({"collective": [name, facts["group"], facts["size"]]})
        try:
            return redispatch(keyset & after, *args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return kernel


def _announce(agent: Agent, name: str) -> None:
    """Under a controlled schedule, have all ranks enter a function together, as one would wait in it unannounced."""
    import torch.distributed as dist

    original = getattr(dist, name)

    @functools.wraps(original)
    def together(*args: Any, **kwargs: Any) -> Any:
        if agent.here and agent.channel is not None:
            agent.channel.ask({"collective": [name, "", agent.plan.ranks]})
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    setattr(dist, name, together)


def _describer(operator: Any) -> Callable[[Any], dict[str, Any]]:
    """Return a function from a call's arguments to what the record says of it, made once from the schema."""
    import torch

    names = [argument.name for argument in operator._schema.arguments]
    tensors = [i for i, argument in enumerate(operator._schema.arguments) if "Tensor" in str(argument.type)]
    group_at = names.index("process_group")
    root_at = next((i for i, name in enumerate(names) if name in ROOTS), None)
    unbox = torch.distributed.ProcessGroup.unbox
    timeouts: dict[str, Optional[float]] = {}

    def describe(args: Any) -> dict[str, Any]:
        group = unbox(args[group_at])
        flat: list[Any] = []
        for i in tensors:
            if i < len(args):
                _flatten(args[i], flat)
        facts: dict[str, Any] = {
            "group": group.group_name,
            "size": group.size(),
            "shapes": [list(t.shape) for t in flat[:16]],
            "dtype": str(flat[0].dtype)[6:] if flat else "",
        }
        if root_at is not None and root_at < len(args):
            facts["root"] = args[root_at]
        if group.group_name not in timeouts:
            timeouts[group.group_name] = facts["timeout_s"] = _timeout(group)
        return facts

    return describe


def _timeout(group: Any) -> Optional[float]:
    """Return the seconds after which the group's backend gives a wait up, where it says so."""
    try:
        backend = group._get_backend(group._device_types[0])
        return float(backend.options._timeout.total_seconds())
    except (AttributeError, IndexError, RuntimeError):
        return None


def _flatten(value: Any, into: list[Any]) -> None:
    if isinstance(value, (list, tuple)):
        for item in value:
            _flatten(item, into)
    elif value is not None:
        into.append(value)
