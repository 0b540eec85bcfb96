"""Every collective of torch, seen before it blocks: a kernel at the `BackendSelect` key of each c10d operator.

The key is in the dispatch set of every call, so those of DDP's C++ reducer, of functional collectives and of subgroups
are seen too. Overriding the CPU key instead deadlocks (the GIL against gloo's work mutex), so the call goes on by
`redispatch` to the keys after this one.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.frames import hide
from breakrank_agent.history import members
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

#: How many different calls of one operator are known by heart.
KEPT = 1024

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
    describe = _describer(name, operator)
    redispatch = operator.redispatch

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if not agent.busy:
            facts = describe(args)
            agent.reach("collective", facts.text)
            if agent.controlled and agent.here and agent.channel is not None:
                agent.channel.ask({"collective": [name, facts.group, facts.size]})
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


class _Facts(NamedTuple):
    """What the record says of a call: the group, its size, and all of it as JSON."""

    group: str
    size: int
    text: str


def _describer(name: str, operator: Any) -> Callable[[Any], _Facts]:
    """Return a function from a call's arguments to what the record says of it, made once from the schema.

    Training makes the same few calls again and again, so the text of each is kept.
    """
    import torch

    names = [argument.name for argument in operator._schema.arguments]
    tensors = [i for i, argument in enumerate(operator._schema.arguments) if "Tensor" in str(argument.type)]
    group_at = names.index("process_group")
    root_at = next((i for i, name in enumerate(names) if name in ROOTS), None)
    unbox = torch.distributed.ProcessGroup.unbox
    known: dict[Any, _Facts] = {}
    timeouts: set[str] = set()

    def describe(args: Any) -> _Facts:
        group = unbox(args[group_at])
        flat: list[Any] = []
        for i in tensors:
            if i < len(args):
                _flatten(args[i], flat)
        root = args[root_at] if root_at is not None and root_at < len(args) else None
        group_name, size, dtype = group.group_name, group.size(), flat[0].dtype if flat else None
        key = (group_name, size, dtype, root, *(t.shape for t in flat[:16]))
        facts = known.get(key)
        if facts is None:
            values = {"op": name, "group": group_name, "size": size, "shapes": [list(s) for s in key[4:]]}
            values["dtype"] = str(dtype)[6:] if flat else ""
            if root is not None:
                values["root"] = root
            facts = _Facts(group_name, size, members(values))
            if len(known) < KEPT:
                known[key] = facts
        if group_name not in timeouts:
            timeouts.add(group_name)
            return facts._replace(text=facts.text + members({"timeout_s": _timeout(group)}))
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
