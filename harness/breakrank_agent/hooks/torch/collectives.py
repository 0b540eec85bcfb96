"""Every collective of torch, seen before it blocks: a kernel at the `BackendSelect` key of each c10d operator.

The key is in the dispatch set of every call, so those of DDP's C++ reducer, of functional collectives and of subgroups
are seen too. Overriding the CPU key instead deadlocks (the GIL against gloo's work mutex), so the call goes on by
`redispatch` to the keys after this one. When it is over is seen by `hooks.works`.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from threading import get_ident
from types import FrameType
from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.services import WorkTracker
from breakrank_agent.agent.thread_scheduler import Turns
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks.torch.async_work import Flight, Part
from breakrank_agent.hooks.torch.collective_faults import changeable
from breakrank_agent.hooks.torch.training import flatten
from breakrank_agent.protocol.log import members

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
#: Those of two ranks: the argument that names the other one, and whether this one is the source.
PEERS = {"send": ("dst", True), "recv_": ("src", False), "recv_any_source_": ("", False)}

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
#: Functions that wait for the message that they hand on to `isend` and `irecv`.
WAITING = frozenset(("send", "recv", "send_object_list", "recv_object_list"))

#: The modules of torch through which an operator comes to a dispatch mode, and goes on from there.
_THROUGH = (("_ops.py",), ("_compile.py",), ("_dynamo", "eval_frame.py"))

#: How many different calls of one operator are known by heart.
KEPT = 1024
#: Of how many of its tensors the record of a call says the shape.
MOST_TENSORS = 16

_libraries: list[Any] = []  # a torch.library.Library lives as long as it is referred to


class _Said(threading.local):
    """The reduction that this thread has asked for, while the call is on its way to the operator."""

    reduce: str = ""


_said = _Said()


def install(agent: Agent) -> None:
    """Register one kernel per operator that this torch has."""
    import torch

    works = agent.services.works
    if not torch.distributed.is_available() or works is None:
        return
    after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    _between.extend(os.path.join(os.path.dirname(torch.__file__), *name) for name in _THROUGH)
    library = torch.library.Library("c10d", "IMPL")
    groups = _Groups(agent)
    for name in OPERATORS:
        packet = getattr(torch.ops.c10d, name, None)
        if packet is not None:
            kernel = _kernel(agent, works, name, packet.default, after, groups)
            if agent.injector.strikes_on("collective"):
                kernel = changeable(agent, name, packet.default, kernel, _said)
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
    agent: Agent, works: WorkTracker, name: str, operator: Any, after: Any, groups: _Groups
) -> Callable[..., Any]:
    call = _Call(agent, name, operator, groups)
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
        agent.reach("collective", facts.text, number, "" if watched is None else members({"in": watched.read}))
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
        _said.reduce = str(args[at] if at < len(args) else kwargs.get("reduce_op", "")).upper()
        try:
            return redispatch(keyset & after, *args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        finally:
            _said.reduce = ""

    return kernel


def _watch_reduction(kind: Any, name: str) -> None:
    """Keep what a method of a process group is asked to reduce by, for the operator that it calls.

    By hand, as the kernel: both are part of what each collective costs.
    """
    original = getattr(kind, name)

    def reducing(*args: Any, **kwargs: Any) -> Any:
        _said.reduce = _reduction(args, kwargs)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        finally:
            _said.reduce = ""

    setattr(kind, name, functools.update_wrapper(reducing, original))


#: Where the code lies that stands between the caller and an operator: ours, and torch's own way through a mode.
_between = [os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep]
#: Which files that is, of those that were asked about.
_passed: dict[str, bool] = {}


def _reduction(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the name of a reduction among arguments: in the options, or by itself."""
    for value in (*args[2:], *kwargs.values()):
        named = getattr(value, "reduceOp", value)
        kind = getattr(named, "op", named)
        if type(kind).__name__ == "RedOpType":
            return str(kind.name)
    return "SUM"


class Facts(NamedTuple):
    """What the record says of a call: its group and size, all of it as JSON, the same of its completion.

    Both texts end with the name of its number, which is the next of `numbers`. `asked`: Python asked for a work to wait
    for. `here`: this rank is the root, or there is none. `pair`: the source and the destination of a message, by their
    ranks in the group. `on_cpu`: its tensors are there.
    """

    group: str
    size: int
    text: str
    over: str
    numbers: Iterator[int]
    asked: bool
    here: bool
    pair: Optional[tuple[int, int]]
    on_cpu: bool

    def part(self, number: int) -> Part:
        """Return what it is a part of."""
        if self.pair is None:
            return Part(f"{self.group} {number}", self.size, self.asked)
        source, destination = self.pair
        return Part(f"{self.group} {source}>{destination} {number}" if min(self.pair) >= 0 else "", 2, self.asked)


#: Where a call comes from: the user's line, whether Python asked for a work, and what to reduce by.
_Place = tuple[str, bool, str]


class _Group:
    """A process group as the record has it: its name, the global ranks, and how many calls there were."""

    def __init__(self, group: Any, name: str) -> None:
        import torch.distributed as dist

        try:
            self.ranks = [int(rank) for rank in dist.get_process_group_ranks(group)]
        except (KeyError, RuntimeError, ValueError):
            self.ranks = list(range(group.size()))
        self.group = weakref.ref(group)
        self.name = name
        self.size: int = group.size()
        self.rank: int = group.rank()
        self.calls = itertools.count(1)
        self.messages: dict[tuple[int, int], itertools.count[int]] = {}

    def numbers(self, pair: Optional[tuple[int, int]]) -> Iterator[int]:
        """Return what numbers the collectives in the group, or the messages between two of its ranks."""
        return self.calls if pair is None else self.messages.setdefault(pair, itertools.count(1))

    def in_world(self, rank: int) -> int:
        """Return the global rank of a rank of the group; -1 stays what it is."""
        return self.ranks[rank] if 0 <= rank < len(self.ranks) else rank


class _Groups:
    """The groups that have had a call. One that is made anew under an old name is another one: `0`, then `0#2`."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        #: By the identity of the object, which is cheaper to ask for than the name.
        self.known: dict[int, _Group] = {}
        self._times: dict[str, int] = {}

    def meet(self, group: Any) -> _Group:
        """Record a group at its first call, and return what is known of it."""
        name = group.group_name
        times = self._times[name] = self._times.get(name, 0) + 1
        made = self.known[id(group)] = _Group(group, name if times == 1 else f"{name}#{times}")
        if self._agent.here:
            facts = {"backend": _backend(group), "timeout_s": _timeout(group)}
            self._agent.record("group", group=made.name, ranks=made.ranks, **facts)
        return made


class _Call:
    """One operator: how the record describes a call of it, made once from the schema.

    Training makes the same few calls again and again, so the text of each is kept.
    """

    def __init__(self, agent: Agent, name: str, operator: Any, groups: _Groups) -> None:
        import torch

        arguments = operator._schema.arguments
        self.names = [argument.name for argument in arguments]
        self._agent = agent
        self._name = name
        self._groups = groups
        self._unbox = torch.distributed.ProcessGroup.unbox
        self._library = torch.distributed.distributed_c10d.__file__
        self._tensors = [i for i, argument in enumerate(arguments) if "Tensor" in str(argument.type)]
        self._group_at = self.names.index("process_group")
        self._root_at = self.names.index("root_rank") if "root_rank" in self.names else -1
        self._async_at = self.names.index("async_op") if "async_op" in self.names else -1
        self._reduces = "reduce_op" in self.names
        # What calls an all-reduce from C++ by itself is DDP's reducer, which sums.
        self._default = "SUM" if name == "allreduce_" else ""
        self._known: dict[Any, Facts] = {}
        #: Where the only tensors are, if they are in a list.
        only = self._tensors[0] if len(self._tensors) == 1 else -1
        self._list_at = only if only >= 0 and str(arguments[only].type) == "List[Tensor]" else -1
        self._engine = getattr(getattr(torch.autograd.graph, "_engine_run_backward", None), "__code__", None)

    def describe(self, args: Any) -> Optional[Facts]:
        """Return what the record says of this call; None for one that is only traced, with tensors of no device."""
        unboxed = self._unbox(args[self._group_at])
        group = self._groups.known.get(id(unboxed))
        if group is None or group.group() is not unboxed:
            group = self._groups.meet(unboxed)
        flat = args[self._list_at] if self._list_at >= 0 else self._flat(args)
        if flat and flat[0].is_meta:
            return None
        place = self._place(args)
        root = args[self._root_at] if self._root_at >= 0 else None
        message = self._message(args) if self._name in PEERS else None
        key: Any = group, place, root, message, bool(flat) and flat[0].is_cpu
        for tensor in flat if len(flat) <= MOST_TENSORS else flat[:MOST_TENSORS]:
            key = key, tensor.dtype, tensor.shape, tensor.is_contiguous()
        return self._known.get(key) or self._learn(key, group, place, root, message, flat)

    def _learn(
        self,
        key: Any,
        group: _Group,
        place: _Place,
        root: Optional[int],
        message: Optional[tuple[int, int]],
        flat: Sequence[Any],
    ) -> Facts:
        """Return what the record says of a call that is made for the first time, and know it from now on."""
        peer = None if message is None else message[0]
        pair = None if peer is None else (group.rank, peer) if PEERS[self._name][1] else (peer, group.rank)
        text, over = self._texts(group, place, root, message, flat)
        here = root is None or root == group.rank
        on_cpu = bool(flat) and flat[0].is_cpu
        facts = Facts(group.name, group.size, text, over, group.numbers(pair), place[1], here, pair, on_cpu)
        if len(self._known) < KEPT:
            self._known[key] = facts
        return facts

    def _flat(self, args: Any) -> list[Any]:
        """Return all tensors among the arguments."""
        flat: list[Any] = []
        for i in self._tensors:
            if i < len(args):
                flatten(args[i], flat)
        return flat

    def _place(self, args: Any) -> _Place:
        """Return where the call comes from."""
        try:
            # Asked for at once: each frame that one walks through is made into an object first.
            frame = sys._getframe(3)
        except ValueError:
            return self._place_of(args, None)
        begun = self._agent.sequences.backward
        if begun is not None and frame.f_code is self._engine and get_ident() == self._agent.main:
            # DDP's reducer, which works for who called the backward pass, and sums.
            return self._agent.sites.above(begun).line, False, self._default
        return self._place_of(args, _caller(frame))

    def _place_of(self, args: Any, frame: Optional[FrameType]) -> _Place:
        return self._site(frame), self._asked(args, frame), self._reduction() if self._reduces else ""

    def _texts(
        self,
        group: _Group,
        place: _Place,
        root: Optional[int],
        message: Optional[tuple[int, int]],
        flat: Sequence[Any],
    ) -> tuple[str, str]:
        """Return all that is said of a call, and of its completion, up to its number."""
        values: dict[str, Any] = {"op": self._name, "group": group.name}
        if message is not None:
            values.update(peer=group.in_world(message[0]), tag=message[1])
        number = ',"c":' if message is None else ',"p":'
        over = members(values) + number
        values.update(size=group.size, shapes=[list(t.shape) for t in flat[:MOST_TENSORS]])
        values["dtype"] = str(flat[0].dtype)[6:] if flat else ""
        if not all(t.is_contiguous() for t in flat[:MOST_TENSORS]):
            values["strides"] = [list(t.stride()) for t in flat[:MOST_TENSORS]]
        if root is not None:
            values["root"] = group.in_world(root)
        site, asked, reduce = place
        values.update({name: value for name, value in (("reduce", reduce), ("site", site)) if value})
        if asked:
            values["async"] = True
        return members(values) + number, over

    def _message(self, args: Any) -> tuple[int, int]:
        """Return the rank of the group that a message goes to or comes from, and its tag."""
        argument, at = PEERS[self._name][0], self.names.index("tag")
        return args[self.names.index(argument)] if argument else -1, args[at] if len(args) > at else 0

    def _reduction(self) -> str:
        return _said.reduce or self._default

    def _site(self, frame: Optional[FrameType]) -> str:
        site = self._agent.sites.above(frame)
        if not site.line and get_ident() != self._agent.main:
            # A thread of the autograd engine has no line of its own: it works for the one that the main thread is in.
            site = self._agent.sites.above(sys._current_frames().get(self._agent.main or 0))
        return site.line

    def _asked(self, args: Any, frame: Optional[FrameType]) -> bool:
        """Whether Python asked for a work; C++, which calls from below torch's other modules, waits for its own."""
        if frame is None:
            return False
        if frame.f_code.co_filename != self._library and self._agent.sites.is_foreign(frame.f_code):
            return False
        if self._name in PEERS:
            return not self._waits(frame)
        return bool(self._async_at < 0 or len(args) <= self._async_at or args[self._async_at]) and self._async_at >= 0

    def _waits(self, frame: Optional[FrameType]) -> bool:
        """Whether a message goes through a function that waits for it."""
        while frame is not None and self._agent.sites.is_foreign(frame.f_code):
            if frame.f_code.co_name in WAITING and frame.f_code.co_filename == self._library:
                return True
            frame = frame.f_back
        return False


def _caller(frame: Optional[FrameType]) -> Optional[FrameType]:
    """Return the frame that called the operator: beyond ours, if it was a method that reduces. C++ alone has none.

    A dispatch mode of ours has passed the call on, through torch's own way to call operators.
    """
    while frame is not None:
        name = frame.f_code.co_filename
        passed = _passed.get(name)
        if passed is None:
            passed = _passed[name] = name.startswith(tuple(_between))
        if not passed:
            break
        frame = frame.f_back
    return frame


def _backend(group: Any) -> str:
    """Return the name of the group's backend, where it says so."""
    try:
        return str(group._get_backend_name()) if hasattr(group, "_get_backend_name") else str(group.name())
    except RuntimeError:
        return ""


def _timeout(group: Any) -> Optional[float]:
    """Return the seconds after which the group's backend gives a wait up, where it says so."""
    try:
        backend = group._get_backend(group._device_types[0])
        return float(backend.options._timeout.total_seconds())
    except (AttributeError, IndexError, RuntimeError):
        return None
