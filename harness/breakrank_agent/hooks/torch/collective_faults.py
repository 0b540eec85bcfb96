"""Collectives that a strike changes: what the rank issues instead, put in the way of the hook that records them.

Nothing is installed by this hook itself: the hook of the collectives wraps its kernels with `changeable`, on a rank
that is to be struck so, and on no other.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.model import NoHandles
from breakrank_agent.hooks.torch.tensor_memory import raw_bytes, words_of
from breakrank_agent.hooks.torch.training import flatten
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.payload import Change

#: Arguments that name a rank of the group.
ROOTS = ("root_rank", "dst", "src")

#: `issue(keyset, *args)`: what records a call and hands it to torch.
Issue = Callable[..., Any]

_caught = threading.local()
#: Reductions by name, as torch hands them to its operators: Python can make none of these.
_reductions: dict[str, Any] = {}


class Held(NamedTuple):
    """A call that waits for the next one of its group, and the future by which its caller may be waiting."""

    call: Call
    keyset: Any
    future: Any
    strikes: list[int]


#: By group.
_held: dict[str, Held] = {}


def changeable(agent: Agent, name: str, operator: Any, issue: Issue, said: Any) -> Issue:
    """Return a kernel that issues what strikes make of each call.

    `said.reduce` is by which reduction the thread's call reduces, as operators get it boxed.
    """
    form = Form(name, operator)

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(_caught, "catching", False):
            _caught.reduction = args[form.reduction]
            return form.result(args, _work(form.tensors_of(args)))
        if agent.busy:
            return issue(keyset, *args, **kwargs)
        call = Call(form, issue, said, args, kwargs)
        strikes = _strike(agent, call)
        held = _held.pop(call.group.group_name, None)
        if held is not None:
            return _issue_swapped(agent, held, call, keyset)
        if call.swapped:
            return _hold(call, keyset, strikes)
        for number in strikes if call.args is not None and not call.received else ():
            _seen(agent, number, form.describe(args), form.describe(call.args))
        before = counted(call.group) if strikes else None
        result = call.issue(keyset)
        if call.received:
            _change_received(agent, call, result, strikes)
        for number in strikes if call.args is None else ():
            # Torch's own count shows that a call was not issued, once it could have been.
            _seen(agent, number, form.describe(args), "", counted=[before, counted(call.group)])
        return result

    return kernel


def _strike(agent: Agent, call: Call) -> list[int]:
    """Let the strikes that are due change the call; return their numbers."""
    strikes = agent.injector.take_collective_strikes()
    for number, strike in strikes:
        _let(agent, number, strike, call)
    return [number for number, _ in strikes]


def _let(agent: Agent, number: int, strike: Strike, call: Call) -> None:
    """Let one strike change the call; one that cannot leaves it as it is, and nobody sees it land."""
    try:
        with agent.quietly():
            strike.fault.strike_inside(_Handed(call))
    except Exception as error:
        agent.record("note", text=f"strike {number} cannot change this call: {type(error).__name__}: {error}")


def _hold(call: Call, keyset: Any, strikes: list[int]) -> Any:
    """Keep the call for later. A caller that waits for it at once is told that it is done: it would wait for ever."""
    import torch

    future = torch.futures.Future()
    if not call.form.is_async(call.args):
        future.set_result(None)
    _held[call.group.group_name] = Held(call, keyset, future, strikes)
    return call.form.result(call.args, _work_of(future))


def _issue_swapped(agent: Agent, held: Held, call: Call, keyset: Any) -> Any:
    """Issue the call and then the one that was held."""
    result = call.issue(keyset)
    for number in held.strikes:
        _seen(agent, number, held.call.form.describe(held.call.args), call.form.describe(call.args))
    late = held.call.issue(held.keyset)
    _wait(late)
    if not held.future.done():
        held.future.set_result(None)
    return result


def _change_received(agent: Agent, call: Call, result: Any, strikes: list[int]) -> None:
    """Change what a call has brought, and have it read before and after."""
    with agent.quietly():
        _wait(result)
        before = call.form.describe(call.args)
        for change in call.received:
            change(words_of("messages", call.form.tensors_of(call.args)))
        after = call.form.describe(call.args)
    for number in strikes:
        _seen(agent, number, before, after)


def _seen(agent: Agent, number: int, before: str, after: str, **counters: Any) -> None:
    agent.record("strike", strike=number, phase="seen", before=before, after=after, **counters)


class _Handed(NoHandles):
    """The call, as a fault gets it."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def collective(self) -> Call:
        """Return the call."""
        return self._call


class Form:
    """The places of tensors, group, root and reduction among the arguments of one operator."""

    def __init__(self, name: str, operator: Any) -> None:
        arguments = operator._schema.arguments
        names = [argument.name for argument in arguments]
        self.name = name
        self.tensors = [i for i, a in enumerate(arguments) if "Tensor" in str(a.type) and a.name != "sparse_indices"]
        self.group = names.index("process_group")
        self.root = next((i for i, name in enumerate(names) if name in ROOTS), -1)
        self.reduction = names.index("reduce_op") if "reduce_op" in names else -1
        self._async = names.index("async_op") if "async_op" in names else -1
        self._returns = len(operator._schema.returns)

    def is_async(self, args: Any) -> bool:
        """Return whether the caller does not wait for the call at once; where nobody says, C++ does not."""
        return self._async >= 0 and (self._async >= len(args) or bool(args[self._async]))

    def tensors_of(self, args: Any) -> list[Any]:
        """Return all tensors of a call."""
        return flatten([args[i] for i in self.tensors], [])

    def result(self, args: Any, work: Any) -> Any:
        """Return what the operator returns for a call whose tensors are in place."""
        return (args[0], work) if self._returns == 2 else work if self._returns == 1 else None

    def describe(self, args: Any) -> str:
        """Say a call as it is handed to torch: its tensors by shape, dtype and digest."""
        tensors = ", ".join(
            f"{list(t.shape)} {str(t.dtype)[6:]} {_digest(t.detach().cpu().contiguous())}"
            for t in self.tensors_of(args)[:8]
        )
        root = f", root {args[self.root]}" if self.root >= 0 else ""
        made = [name for name, known in _reductions.items() if self.reduction >= 0 and args[self.reduction] is known]
        return f"{self.name}({tensors}{root}{''.join(f', {name}' for name in made)})"


class Call:
    """One call of a collective; `args` is None when it is left out."""

    def __init__(self, form: Form, issue: Issue, said: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch

        self.form = form
        self.args: Any = args
        self.swapped = False
        #: Changes of what it brings to this rank.
        self.received: list[Change] = []
        self.group = torch.distributed.ProcessGroup.unbox(args[form.group])
        self._issue = issue
        self._said = said
        self._reduce = said.reduce
        self._called_with = args
        self._kwargs = kwargs
        self._put_back: Optional[Callable[[], None]] = None

    def skip(self) -> None:
        """Leave it out."""
        self.args = None

    def swap(self) -> None:
        """Issue it after the next one of its group."""
        self.swapped = True

    def change(self, what: str, to: Any) -> None:
        """Issue it another way. Raises `LookupError` for a call that has no such thing."""
        if what == "root":
            where = _existing(self.form.root, "root")
            self._replace(where, (self.args[where] + 1) % self.group.size() if to is None else to)
        elif what == "reduce":
            where = _existing(self.form.reduction, "reduction")
            self._replace(where, _reduction(self.group, str(to)))
            self._reduce = str(to)
        else:
            self._remake(*_REMADE[what](to))

    def send_changed(self, change: Change) -> None:
        """Issue it with a copy of its tensors that was changed on its way out."""
        self._remake(lambda tensor: tensor.clone(), lambda tensor, copy: tensor.copy_(copy))
        change(words_of("messages", self.form.tensors_of(self.args)))

    def receive_changed(self, change: Change) -> None:
        """Change its tensors as soon as it is complete."""
        self.received.append(change)

    def issue(self, keyset: Any) -> Any:
        """Issue it as it is now; what was made of copies is put back before anybody looks."""
        if self.args is None:
            return self.form.result(self._called_with, _work(self.form.tensors_of(self._called_with)))
        before, self._said.reduce = self._said.reduce, self._reduce
        try:
            result = self._issue(keyset, *self.args, **self._kwargs)
        finally:
            self._said.reduce = before
        if self._put_back is None:
            return result
        _wait(result)
        self._put_back()
        return self.form.result(self._called_with, _work(self.form.tensors_of(self._called_with)))

    def _replace(self, where: int, value: Any) -> None:
        self.args = (*self.args[:where], value, *self.args[where + 1 :])

    def _remake(self, make: Callable[[Any], Any], put_back: Callable[[Any, Any], None]) -> None:
        """Put other tensors in the place of the caller's own."""
        originals = self.form.tensors_of(self.args)
        copies = [make(tensor.detach()) for tensor in originals]
        rest = iter(copies)
        for where in self.form.tensors:
            self._replace(where, _rebuilt(self.args[where], rest))

        def put_all_back() -> None:
            for original, copy in zip(originals, copies):
                put_back(original.detach(), copy)

        self._put_back = put_all_back


def counted(group: Any) -> Optional[int]:
    """Return how many collectives torch itself has counted in a group; None where it does not count."""
    with contextlib.suppress(RuntimeError):
        return int(group._get_sequence_number_for_group())
    return None


def _existing(where: int, what: str) -> int:
    if where < 0:
        raise LookupError(f"the call has no {what}")
    return where


def _casting(dtype: Any) -> tuple[Any, Any]:
    import torch

    return lambda t: t.to(getattr(torch, dtype)), lambda t, copy: t.copy_(copy)


def _transposing(_: Any) -> tuple[Any, Any]:
    def transpose(tensor: Any) -> Any:
        if tensor.dim() < 2 or tensor.shape[-1] == tensor.shape[-2]:
            raise LookupError(f"a tensor of shape {list(tensor.shape)} has no other one with as many elements")
        return tensor.transpose(-1, -2).contiguous()

    return transpose, lambda t, copy: t.copy_(copy.transpose(-1, -2))


def _resizing(more: Any) -> tuple[Any, Any]:
    import torch

    def resize(tensor: Any) -> Any:
        flat = tensor.reshape(-1)
        return flat[:more].clone() if more < 0 else torch.cat((flat, flat.new_zeros(more)))

    def put_back(tensor: Any, copy: Any) -> None:
        kept = min(tensor.numel(), copy.numel())
        tensor.view(-1)[:kept].copy_(copy[:kept])

    return resize, put_back


_REMADE: dict[str, Callable[[Any], tuple[Any, Any]]] = {"dtype": _casting, "shape": _transposing, "count": _resizing}


def _reduction(group: Any, name: str) -> Any:
    """Return a reduction as operators get it: caught from a call that is never issued, as Python can make none."""
    import torch

    if name not in _reductions:
        options = torch.distributed.AllreduceOptions()
        options.reduceOp = getattr(torch.distributed.ReduceOp, name)
        _caught.catching = True
        try:
            group.allreduce([torch.zeros(1)], options)
        finally:
            _caught.catching = False
        _reductions[name] = _caught.reduction
    return _reductions[name]


def _work(tensors: list[Any]) -> Any:
    """Return the work of a call that is done."""
    import torch

    future = torch.futures.Future()
    future.set_result(tensors)
    return _work_of(future)


def _work_of(future: Any) -> Any:
    from torch._C import _distributed_c10d

    made: Any = getattr(_distributed_c10d, "_create_work_from_future")(future)  # noqa: B009 - stubs do not know it
    return made.boxed()


def _wait(result: Any) -> None:
    """Wait for what an operator returned."""
    import torch

    work = result[1] if isinstance(result, tuple) else result
    if work is not None:
        torch.distributed.Work.unbox(work).wait()


def _digest(tensor: Any) -> str:
    return hashlib.blake2b(raw_bytes(tensor), digest_size=4).hexdigest()


def _rebuilt(value: Any, rest: Iterator[Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_rebuilt(item, rest) for item in value]
    return next(rest) if value is not None else None
