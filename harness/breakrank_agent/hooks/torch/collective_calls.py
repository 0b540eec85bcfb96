"""Calls of collectives: what the record says of one, with the line of the user's code that it comes from."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks.torch.async_work import Part
from breakrank_agent.hooks.torch.process_groups import Group, Groups
from breakrank_agent.hooks.torch.training import flatten
from breakrank_agent.protocol.log import members

#: Those of two ranks: the argument that names the other one, and whether this one is the source.
PEERS = {"send": ("dst", True), "recv_": ("src", False), "recv_any_source_": ("", False)}
#: Functions that wait for the message that they hand on to `isend` and `irecv`.
WAITING = frozenset(("send", "recv", "send_object_list", "recv_object_list"))

#: The modules of torch through which an operator comes to a dispatch mode, and goes on from there.
_THROUGH = (("_ops.py",), ("_compile.py",), ("_dynamo", "eval_frame.py"))

#: The most different calls of one operator that are known by heart.
KEPT = 1024
#: Of how many of its tensors the record of a call says the shape.
MOST_TENSORS = 16


class _Said(threading.local):
    """The reduction that this thread has asked for, while the call is on its way to the operator."""

    reduce: str = ""


said = _Said()

#: Operators that write to several tensors.
_WRITE_SEVERAL = ("allgather_", "alltoall_", "gather_")

#: Paths of the code between the caller and an operator: ours, and torch's own way through a mode.
_between = [os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep]
#: True for each file that is such code, of those that were asked about.
_passed: dict[str, bool] = {}


#: The code of the functions by which DDP's reducer has gradients reduced (`register_comm_hook`).
_comm_hooks: set[CodeType] = set()


def know_comm_hooks() -> None:
    """Take down each function that DDP is to reduce gradients by: its reducer waits for the future that it returns."""
    import torch

    def register(_: Any, state: Any, hook: Any) -> None:
        code = getattr(hook, "__code__", None) or getattr(type(hook).__call__, "__code__", None)
        if code is not None:
            _comm_hooks.add(code)

    interpose(torch.nn.parallel.DistributedDataParallel, "register_comm_hook", register)


def pass_over_torch() -> None:
    """Take torch's own way to call operators for what stands between a caller and an operator."""
    import torch

    _between.extend(os.path.join(os.path.dirname(torch.__file__), *name) for name in _THROUGH)


class Facts(NamedTuple):
    """The facts of a call on record: its group and size, all of it as JSON, the same of its completion.

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


#: The origin of a call: the user's line, whether Python asked for a work, and the reduction.
_Place = tuple[str, bool, str]


class Call:
    """One operator: how the record describes a call of it, made once from the schema.

    Training makes the same few calls again and again, so the text of each is kept.
    """

    def __init__(self, agent: Agent, name: str, operator: Any, groups: Groups) -> None:
        import torch

        arguments = operator._schema.arguments
        self.names = [argument.name for argument in arguments]
        self._agent, self._sites, self._recorder, self._sequences = agent, agent.sites, agent.recorder, agent.sequences
        self._name = name
        self._groups = groups
        self._unbox = torch.distributed.ProcessGroup.unbox
        self._library = torch.distributed.distributed_c10d.__file__
        self._uneven = os.path.join(os.path.dirname(self._library), "algorithms", "join.py")
        self._tensors = [i for i, argument in enumerate(arguments) if "Tensor" in str(argument.type)]
        self._group_at = self.names.index("process_group")
        self._root_at = self.names.index("root_rank") if "root_rank" in self.names else -1
        self._async_at = self.names.index("async_op") if "async_op" in self.names else -1
        self._reduces = "reduce_op" in self.names
        self._splits_at = self.names.index("output_split_sizes") if "output_split_sizes" in self.names else -1
        # An all-reduce called from C++ itself is one of DDP's reducer, which sums.
        self._default = "SUM" if name == "allreduce_" else ""
        self._known: dict[Any, Facts] = {}
        #: The places of the only list of tensors, and of the only tensor that there may be beside it.
        kinds = [str(arguments[i].type) for i in self._tensors]
        alone = kinds in (["List[Tensor]"], ["List[Tensor]", "Optional[Tensor]"])
        self._list_at = self._tensors[0] if alone else -1
        self._beside_at = self._tensors[1] if alone and len(kinds) == 2 else len(arguments)
        #: The place of the tensors that the call writes to, if these are several.
        self._outputs_at = self.names.index("output_tensors") if name in _WRITE_SEVERAL else -1
        self._engine = getattr(getattr(torch.autograd.graph, "_engine_run_backward", None), "__code__", None)

    def describe(self, args: Any) -> Optional[Facts]:
        """Return what the record says of this call; None for one that is only traced, with tensors of no device."""
        unboxed = self._unbox(args[self._group_at])
        group = self._groups.known.get(id(unboxed))
        if group is None or group.group() is not unboxed:
            group = self._groups.meet(unboxed)
        beside = self._beside_at
        listed = self._list_at >= 0 and (len(args) <= beside or args[beside] is None)
        flat = args[self._list_at] if listed else self._flat(args)
        on_cpu = bool(flat) and flat[0].is_cpu
        if flat and not on_cpu and flat[0].is_meta:
            return None
        place = self._place(args)
        root = args[self._root_at] if self._root_at >= 0 else None
        message = self._message(args) if self._name in PEERS else None
        key: Any = group, place, root, message, on_cpu
        more: dict[str, Any] = {}
        if self._splits_at >= 0:
            splits = args[self._splits_at : self._splits_at + 2]
            if any(splits):
                more["splits"] = splits
                key = key, *map(tuple, splits)
        if self._outputs_at >= 0 and _overlap(flatten(args[self._outputs_at], [])):
            more["overlap"] = True
            key = key, "overlap"
        for tensor in flat if len(flat) <= MOST_TENSORS else flat[:MOST_TENSORS]:
            key = key, tensor.dtype, tensor.shape, tensor.is_contiguous()
        return self._known.get(key) or self._learn(key, group, place, root, message, flat, more)

    def _learn(
        self,
        key: Any,
        group: Group,
        place: _Place,
        root: Optional[int],
        message: Optional[tuple[int, int]],
        flat: Sequence[Any],
        more: dict[str, Any],
    ) -> Facts:
        """Return what the record says of a call that is made for the first time, and know it from now on."""
        peer = None if message is None else message[0]
        pair = None if peer is None else (group.rank, peer) if PEERS[self._name][1] else (peer, group.rank)
        text, over = self._texts(group, place, root, message, flat, more)
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
        begun = self._sequences.backward
        if begun is not None and frame.f_code is self._engine and get_ident() == self._recorder.main:
            # DDP's reducer, which works for who called the backward pass, and sums.
            return self._sites.above(begun).line, False, self._default
        return self._place_of(args, _caller(frame))

    def _place_of(self, args: Any, frame: Optional[FrameType]) -> _Place:
        return self._site(frame), self._asked(args, frame), self._reduction() if self._reduces else ""

    def _texts(
        self,
        group: Group,
        place: _Place,
        root: Optional[int],
        message: Optional[tuple[int, int]],
        flat: Sequence[Any],
        more: dict[str, Any],
    ) -> tuple[str, str]:
        """Return all that is said of a call, and of its completion, up to its number."""
        values: dict[str, Any] = {"op": self._name, "group": group.name}
        if message is not None:
            values.update(peer=group.in_world(message[0]), tag=message[1])
        number = ',"c":' if message is None else ',"p":'
        over = members(values) + number
        values.update(size=group.size, shapes=[list(t.shape) for t in flat[:MOST_TENSORS]])
        values["dtype"] = str(flat[0].dtype)[6:] if flat else ""
        values.update(more)
        if "splits" in more:
            values["splits"] = [list(map(int, sizes)) for sizes in more["splits"]]
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
        return said.reduce or self._default

    def _site(self, frame: Optional[FrameType]) -> str:
        site = self._agent.sites.above(frame)
        if not site.line and get_ident() != self._agent.main:
            # A thread of the autograd engine has no line of its own: it works for the one that the main thread is in.
            site = self._agent.sites.above(sys._current_frames().get(self._agent.main or 0))
        return site.line

    def _asked(self, args: Any, frame: Optional[FrameType]) -> bool:
        """Return whether Python called with `async_op=True` and holds the work; C++ callers wait themselves."""
        if frame is None:
            return False
        if frame.f_code.co_filename != self._library and self._agent.sites.is_foreign(frame.f_code):
            return False
        if self._name in PEERS:
            return not self._waits(frame)
        asked = self._async_at >= 0 and bool(len(args) <= self._async_at or args[self._async_at])
        return asked and not self._is_left(frame)

    def _is_left(self, frame: FrameType) -> bool:
        """Return whether the work is left to C++, which waits for it.

        DDP does so with uneven inputs, and with what a function of the program's own reduces gradients by.
        """
        if _comm_hooks and self._agent.sequences.backward is not None:
            for outer in _frames(frame):
                if outer.f_code in _comm_hooks:
                    return True
        return any(code.co_filename == self._uneven for code in self._foreign(frame))

    def _waits(self, frame: FrameType) -> bool:
        """Return whether a message goes through a function that waits for it."""
        return any(code.co_name in WAITING and code.co_filename == self._library for code in self._foreign(frame))

    def _foreign(self, frame: Optional[FrameType]) -> Iterator[CodeType]:
        """Yield the code of a frame and of those around it, up to the user's."""
        while frame is not None and self._agent.sites.is_foreign(frame.f_code):
            yield frame.f_code
            frame = frame.f_back


def _overlap(outputs: Sequence[Any]) -> bool:
    """Return whether two of the tensors begin at one address; those without elements, or memory, do not count."""
    addresses = [tensor.data_ptr() for tensor in outputs if tensor.numel()]
    return len(set(addresses)) < len(addresses) and all(addresses)


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


def _frames(frame: Optional[FrameType]) -> Iterator[FrameType]:
    """Yield a frame and those around it."""
    while frame is not None:
        yield frame
        frame = frame.f_back
