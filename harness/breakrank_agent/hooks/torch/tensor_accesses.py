"""Reads and writes of tensors: a `TorchDispatchMode` in each of the user's threads sees each operator before it runs.

Its schema says what an operator reads and writes. A storage is known by its address, which is held weakly and
so not used again; one in a shared mapping by device and inode, which are the same in every rank. A way past the
operators (`numpy`, `tolist`, `print`, `torch.save`, DLPack, a deep copy) is taken for a read of the whole tensor.

Under a controlled schedule a thread lets others move before an operator that touches what is not its own alone. If it
is *split*, an operator that reads and writes the same storage works on a copy, and lets others move before it stores;
one that does so by an index stays one move, since a copy holds what it does not name, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Callable, Optional

from breakrank_agent.agent.access_log import Accesses
from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks.torch.dispatch_modes import enter_mode, uncompiled
from breakrank_agent.hooks.torch.operator_forms import Form, collective_form, form_of
from breakrank_agent.hooks.torch.storages import MANY, PLAIN, Storages, Touch, describe

WAITS_FOR = "torch"
IN_CHILDREN = True

#: Methods that read a tensor without any operator.
_UNSEEN = ("numpy", "tolist", "__array__", "__repr__", "__dlpack__", "__deepcopy__")
_NONE: dict[str, Any] = {}


def install(agent: Agent) -> None:
    """Enter the mode in the main thread, for as long as the rank lives, and in each thread that is started later."""
    if not agent.watches:
        return
    watch = _Watch(agent)
    mode = _make_mode(agent, watch)
    agent.on.user_thread.append(mode)
    enter_mode(agent, mode(), "reads and writes of tensors are")
    _watch_unseen(watch)
    agent.services.tensors = watch
    agent.record("note", text="reads and writes of tensors are on record", accesses=True)


def _make_mode(agent: Agent, watch: _Watch) -> Callable[[], Any]:
    from torch.utils._python_dispatch import TorchDispatchMode

    run, recorder = uncompiled(watch.run), agent.recorder

    class Accesses(TorchDispatchMode):
        """Shows each operator to the watch."""

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # Torch would put a wrapper around the other method, to keep its compiler out of it. See `uncompiled`.
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if (agent.quiet and agent.busy) or not recorder.sees:
                return func(*args, **(kwargs or {}))
            return run(func, args, kwargs or _NONE)

    return Accesses


class _Watch:
    """Records the tensors that operators touch, and lets others move before them."""

    def __init__(self, agent: Agent) -> None:
        import torch

        self._agent = agent
        self._accesses: Accesses = agent.accesses
        self._sites = agent.sites
        self._tensor = torch.Tensor
        self._storages = Storages(agent)
        self._recent = self._storages.recent
        self._forms: dict[int, tuple[Optional[Form], Any]] = {}
        self._collectives: dict[Any, Form] = {}
        self._free = not agent.controlled
        self._split = agent.plan.schedule.split and agent.controlled
        agent.on.child_begin.append(self._begin_anew)

    def _begin_anew(self) -> None:
        """Begin with no storage known, in a child that was forked, and with no schedule."""
        self._storages.forget()
        self._split, self._free = False, True

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, after what it touches is on record and others may have moved."""
        # By identity, as an operator is hashed in Python; the one that is kept keeps its identity, too.
        known = self._forms.get(id(func))
        form = known[0] if known is not None else self._learn(func)
        if form is None:
            return func(*args, **kwargs)
        call, threaded = None, self._accesses.threaded
        if threaded and self._free and not kwargs and form.pick is None:
            call = self._call(func, args, self._sites.above(sys._getframe(3)).line)
        if call is None or call not in self._recent:
            touches = self._storages.touches(form, args, kwargs)
            if touches:
                # The two frames above this one are ours.
                site = self._sites.above(sys._getframe(3)).line
                if self._split and form.updates and self._contested(touches):
                    return self._run_split(func, form, touches, args, kwargs, site)
                self._enter(form.name, touches, site)
            if call is not None and not any(touch.storage.owner for touch in touches):
                self._keep(call)
        result = func(*args, **kwargs) if kwargs else func(*args)
        if form.makes and threaded:
            self._storages.own(result)
        return result

    def _call(self, func: Any, args: Any, site: str) -> Optional[tuple[Any, ...]]:
        """Return what a call has in common with others that touch the same, from the same line, before the next sync.

        None if that takes long to find out. A storage that is known keeps its address.
        """
        name = self._agent.sequences.current()
        call = [id(func), site, name, self._accesses.since(name)]
        tensor = self._tensor
        for value in args:
            if type(value) in PLAIN:
                continue
            if not isinstance(value, tensor):
                return None
            try:
                storage = value.untyped_storage()
            except (NotImplementedError, RuntimeError):
                return None
            if not value.is_contiguous():
                return None
            call += (storage._cdata, storage.is_shared(), value.storage_offset(), value.numel(), value.itemsize)
        return tuple(call)

    def _keep(self, call: tuple[Any, ...]) -> None:
        if len(self._recent) >= MANY:
            self._recent.clear()
        self._recent.add(call)

    def read(self, tensor: Any, op: str) -> None:
        """Take note of a read that no operator makes."""
        agent = self._agent
        if agent.busy or not agent.sees:
            return
        touch = self._storages.touch(tensor, "r")
        if touch is not None:
            self._enter(op, [touch], self._sites.here().line)

    def read_all(self, value: Any, op: str) -> None:
        """Take note of a read of all tensors in a value that is saved."""
        for tensor in _tensors(value, self._tensor):
            self.read(tensor, op)

    def take(self, operator: Any, args: Any, goes_on: bool) -> None:
        """Take note of what a collective is about to read and write, for as long as it goes on."""
        if operator not in self._collectives:
            self._collectives[operator] = collective_form(operator)
        form = self._collectives[operator]
        self._storages.taking = goes_on
        touches = self._storages.touches(form, args, {})
        self._storages.taking = False
        site = self._sites.here().line
        self._accesses.renew()
        for storage, span, mode, tensor in touches:
            storage.taken = storage.taken or goes_on
            if storage.owner:
                self._storages.publish(storage)
            words = "" if storage.told else describe(tensor)
            storage.told = True
            self._accesses.access(form.name, mode, self._storages.key(storage), span, site, tensor=words)

    def _learn(self, func: Any) -> Optional[Form]:
        form = form_of(func) if hasattr(func, "_schema") else None
        self._forms[id(func)] = form, func
        return form

    def _contested(self, touches: list[Touch]) -> bool:
        name = self._agent.sequences.current()
        return any(t.mode == "rw" and t.storage.owner != name for t in touches)

    def _enter(self, op: str, touches: list[Touch], site: str) -> None:
        """Let others move where the schedule has it so, and record what is touched."""
        agent, pointed = self._agent, False
        for storage, span, mode, tensor in touches:
            if storage.owner:
                if storage.owner == agent.sequences.current():
                    self._accesses.keep(storage.kept, op, mode, span, site)
                    continue
                self._storages.publish(storage)
            words = "" if storage.told else describe(tensor)
            if storage.shared:
                agent.take_turn(op, mode, storage.key, span, site=site, tensor=words)
            else:
                if agent.turns is not None and not pointed:
                    agent.turns.point()
                    pointed = True
                self._accesses.access(op, mode, storage.key or self._storages.key(storage), span, site, tensor=words)
            storage.told = True

    def _run_split(self, func: Any, form: Form, touches: list[Touch], args: Any, kwargs: Any, site: str) -> Any:
        """Run an operator on copies of what it updates, let others move, and store."""
        reads = [Touch(t.storage, t.span, "r", t.tensor) for t in touches if t.mode != "w"]
        self._enter(form.name, reads, site)
        copies: dict[int, tuple[Any, Any]] = {}
        args = tuple(self._copied(value, mode, copies) for mode, value in zip(form.modes, args))
        kwargs = {name: self._copied(value, form.by_name.get(name, "r"), copies) for name, value in kwargs.items()}
        result = func(*args, **kwargs)
        writes = [Touch(t.storage, t.span, "w", t.tensor) for t in touches if t.mode != "r"]
        self._enter(f"{form.name}/store", writes, site)
        for tensor, copy in copies.values():
            tensor.copy_(copy)
        return self._originals(result, copies)

    def _copied(self, value: Any, mode: str, copies: dict[int, tuple[Any, Any]]) -> Any:
        if mode != "rw":
            return value
        if isinstance(value, self._tensor):
            copy = value.clone()
            copies[id(copy)] = (value, copy)
            return copy
        if isinstance(value, (list, tuple)):
            return [self._copied(item, mode, copies) for item in value]
        return value

    def _originals(self, value: Any, copies: dict[int, tuple[Any, Any]]) -> Any:
        """Return an operator's result with the tensors that it was given in the place of their copies."""
        if isinstance(value, self._tensor):
            return copies[id(value)][0] if id(value) in copies else value
        if isinstance(value, (list, tuple)):
            return type(value)(self._originals(item, copies) for item in value)
        return value


def _watch_unseen(watch: _Watch) -> None:
    """Wrap what reads a tensor without any operator."""
    import torch

    for name in _UNSEEN:
        interpose(torch.Tensor, name, _reading(watch, name.strip("_")))
    torch.to_dlpack = interpose(torch.utils.dlpack, "to_dlpack", _reading(watch, "to_dlpack"))


def _reading(watch: _Watch, op: str) -> Callable[..., None]:
    def reading(tensor: Any, *_: Any, **__: Any) -> None:
        watch.read(tensor, op)

    return reading


def _tensors(value: Any, kind: type) -> Iterator[Any]:
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, kind)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, kind)
    elif hasattr(value, "state_dict") and not isinstance(value, type):
        yield from _tensors(value.state_dict(), kind)
