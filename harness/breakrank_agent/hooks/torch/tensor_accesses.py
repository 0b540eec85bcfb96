"""Reads and writes of tensors: a `TorchDispatchMode` in each of the user's threads sees each operator before it runs.

What an operator reads and writes follows from its schema. A storage is known by its address, which is held weakly and
so not used again; one in a shared mapping by device and inode, which are the same in every rank. What passes the
operators by (`numpy`, `tolist`, `print`, `torch.save`, DLPack, a deep copy) is taken for a read of the whole tensor.

Under a controlled schedule a thread lets others move before an operator that touches what is not its own alone. If it
is *split*, an operator that reads and writes the same storage works on a copy, and lets others move before it stores;
one that does so by an index stays one move, since a copy holds what it does not name, too.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.agent.access_log import Accesses, Kept, Span, shared_at
from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks.torch.indices import MOST, Pick, adds, pick_of, pieces, span_of

WAITS_FOR = "torch"
IN_CHILDREN = True

#: Operators that write a tensor without reading what was there.
_BLIND = frozenset(
    (
        *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_"),
        *("log_normal_", "cauchy_", "resize_", "_foreach_copy_", "_foreach_zero_"),
    )
)
#: Operators that ask a tensor for its form only.
_FORM_ONLY = frozenset(
    (
        *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"),
        *("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "is_same_size", "set_", "detach_"),
        *("sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "record_stream", "resize_as_", "is_pinned"),
    )
)
#: What reads a tensor without any operator.
_UNSEEN = ("numpy", "tolist", "__array__", "__repr__", "__dlpack__", "__deepcopy__")
#: Arguments of these kinds touch nothing.
_PLAIN = frozenset((int, float, bool, str, type(None)))
_NONE: dict[str, Any] = {}
#: Known storages are looked through for dead ones when there are this many, and again when they have doubled.
_MANY = 4096


def install(agent: Agent) -> None:
    """Enter the mode in the main thread, for as long as the rank lives, and in each thread that is started later."""
    if not agent.watches:
        return
    watch = _Watch(agent)
    mode = _make_mode(agent, watch)
    agent.on.user_thread.append(mode)
    mode().__enter__()
    _watch_unseen(watch)
    agent.services.tensors = watch
    agent.record("note", text="reads and writes of tensors are on record", accesses=True)


def _make_mode(agent: Agent, watch: _Watch) -> Callable[[], Any]:
    from torch.utils._python_dispatch import TorchDispatchMode

    run, recorder = _uncompiled(watch.run), agent.recorder

    class Accesses(TorchDispatchMode):
        """Shows each operator to the watch."""

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # Torch would put a wrapper around the other method, to keep its compiler out of it. See `_uncompiled`.
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if (agent.quiet and agent.busy) or not recorder.sees:
                return func(*args, **(kwargs or {}))
            return run(func, args, kwargs or _NONE)

    return Accesses


def _uncompiled(run: Callable[..., Any]) -> Callable[..., Any]:
    """Keep torch's compiler, which beside a mode runs nothing but what it had compiled before, out of what we call."""
    from torch._C._dynamo.eval_frame import set_eval_frame

    def running(func: Any, args: Any, kwargs: Any) -> Any:
        compiler = set_eval_frame(None)
        if compiler is None:
            return run(func, args, kwargs)
        try:
            return run(func, args, kwargs)
        finally:
            set_eval_frame(compiler)

    return running


class _Form(NamedTuple):
    """What an operator does with its arguments: the mode of each, by position and by name."""

    name: str
    modes: tuple[str, ...]
    by_name: dict[str, str]
    #: Whether it reads and writes the same tensor, and whether it makes new ones.
    updates: bool
    makes: bool
    #: What it picks of its first argument, if it is one by index.
    pick: Optional[Pick] = None


def _form(func: Any) -> Optional[_Form]:
    """Return an operator's form, or None if it touches no data."""
    space, name = func._schema.name.split("::")
    # Collectives show themselves, see `_Watch.take`.
    if space in ("c10d", "_c10d_functional") or func.is_view or name in _FORM_ONLY:
        return None
    modes = []
    for argument in func._schema.arguments:
        written = argument.alias_info is not None and argument.alias_info.is_write
        blind = name in _BLIND or argument.is_out
        modes.append(("w" if blind else "rw") if written else "r")
    makes = any(result.alias_info is None for result in func._schema.returns)
    names = [argument.name for argument in func._schema.arguments]
    pick = pick_of(name, names)
    updates = "rw" in modes and pick is None
    return _Form(func.__name__, tuple(modes), dict(zip(names, modes)), updates, makes, pick)


def _collective_form(func: Any) -> _Form:
    """Return the form of a collective, whose schema says nothing of what it writes."""
    name, modes = func._schema.name.split("::")[1], []
    for argument in func._schema.arguments:
        if "Tensor" not in str(argument.type):
            modes.append("")
        elif "output" in argument.name or name in ("recv_", "recv_any_source_"):
            modes.append("w")
        elif "input" in argument.name or name == "send":
            modes.append("r")
        else:
            modes.append("rw")
    names = [argument.name for argument in func._schema.arguments]
    return _Form(f"c10d::{name}", tuple(modes), dict(zip(names, modes)), False, False)


class _Storage:
    """A storage that is held weakly. `owner` is the thread that made it, while no other has touched it; else empty."""

    __slots__ = ("base", "kept", "key", "owner", "shared", "taken", "told", "weak")

    def __init__(self, weak: Any, owner: str) -> None:
        self.weak = weak
        self.owner = owner
        self.key = ""
        self.base = 0
        self.shared = False
        #: Whether a collective has worked on it beside the thread that asked for it.
        self.taken = False
        #: Whether it is on record already what this is.
        self.told = False
        self.kept: dict[Any, Kept] = {}


class _Touch(NamedTuple):
    """One storage that an operator touches."""

    storage: _Storage
    span: Span
    mode: str
    tensor: Any


class _Watch:
    """What operators touch, and what follows of it."""

    def __init__(self, agent: Agent) -> None:
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        self._agent = agent
        self._accesses: Accesses = agent.accesses
        self._sites = agent.sites
        self._tensor = torch.Tensor
        self._weak = StorageWeakRef
        self._forms: dict[int, tuple[Optional[_Form], Any]] = {}
        self._collectives: dict[Any, _Form] = {}
        self._known: dict[int, _Storage] = {}
        #: At full speed, beside threads: calls that touch nothing which is not on record already.
        self._recent: set[tuple[Any, ...]] = set()
        self._free = not agent.controlled
        self._limit = _MANY
        self._mapped = self._taking = self._coarse = False
        self._split = agent.plan.schedule.split and agent.controlled

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event == "mmap.__new__" and not agent.busy:
                self._mapped = True
                self._recent.clear()

        sys.addaudithook(hook)
        agent.on.child_begin.append(self._begin_anew)

    def _begin_anew(self) -> None:
        """Forget what the rank knew: in a child that was forked, all that is not shared is a copy."""
        self._known.clear()
        self._recent.clear()
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
            touches = self._touches(form, args, kwargs)
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
            self._own(result)
        return result

    def _call(self, func: Any, args: Any, site: str) -> Optional[tuple[Any, ...]]:
        """Return what a call has in common with others that touch the same, from the same line, before the next sync.

        None if that takes long to find out. A storage that is known keeps its address, see `_meet`.
        """
        name = self._agent.sequences.current()
        call = [id(func), site, name, self._accesses.since(name)]
        tensor = self._tensor
        for value in args:
            if type(value) in _PLAIN:
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
        if len(self._recent) >= _MANY:
            self._recent.clear()
        self._recent.add(call)

    def read(self, tensor: Any, op: str) -> None:
        """Take note of a read that no operator makes."""
        agent = self._agent
        if agent.busy or not agent.sees:
            return
        touch = self._touch(tensor, "r")
        if touch is not None:
            self._enter(op, [touch], self._sites.here().line)

    def read_all(self, value: Any, op: str) -> None:
        """Take note of a read of all tensors in a value that is saved."""
        for tensor in _tensors(value, self._tensor):
            self.read(tensor, op)

    def take(self, operator: Any, args: Any, goes_on: bool) -> None:
        """Take note of what a collective is about to read and write, for as long as it goes on."""
        if operator not in self._collectives:
            self._collectives[operator] = _collective_form(operator)
        form = self._collectives[operator]
        self._taking = goes_on
        touches = self._touches(form, args, {})
        self._taking = False
        site = self._sites.here().line
        self._accesses.renew()
        for storage, span, mode, tensor in touches:
            storage.taken = storage.taken or goes_on
            if storage.owner:
                self._publish(storage)
            words = "" if storage.told else _words(tensor)
            storage.told = True
            self._accesses.access(form.name, mode, self._key(storage), span, site, tensor=words)

    def _learn(self, func: Any) -> Optional[_Form]:
        form = _form(func) if hasattr(func, "_schema") else None
        self._forms[id(func)] = form, func
        return form

    # --- what is touched

    def _touches(self, form: _Form, args: Any, kwargs: Any) -> list[_Touch]:
        """Return what the operator touches that may be touched by others, writes last."""
        found: list[_Touch] = []
        if form.pick is not None:
            self._add_picked(form, form.pick, args, kwargs, found)
            args = (None, *args[1:])
        for mode, value in zip(form.modes, args):
            if type(value) not in _PLAIN:
                self._add(value, mode, found)
        if kwargs:
            for name, value in kwargs.items():
                self._add(value, form.by_name.get(name, "r"), found)
        if len(found) > 1:
            found = _merged(found)
        return found

    def _add(self, value: Any, mode: str, found: list[_Touch]) -> None:
        if isinstance(value, self._tensor):
            touch = self._touch(value, mode) if mode else None
            if touch is not None:
                found.append(touch)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._add(item, mode, found)

    def _add_picked(self, form: _Form, pick: Pick, args: Any, kwargs: Any, found: list[_Touch]) -> None:
        """Add what an operator by index touches of its first argument: what the index names."""
        touch = self._touch(args[0], pick.mode)
        if touch is None:
            return
        with self._agent.quietly():
            picked = pieces(args[0], touch.storage.base, pick, args)
        if adds(form.name.split(".")[0], args, kwargs):
            touch = touch._replace(mode="rw")
        if picked is None:
            found.append(touch)
        elif picked:
            found.append(touch._replace(span=span_of(picked)))
            if len(picked) > MOST and not self._coarse:
                self._coarse = True
                text = f"what an index names in more than {MOST} pieces is taken for all that lies between them"
                self._agent.record("note", text=text, limits=True)

    def _touch(self, tensor: Any, mode: str) -> Optional[_Touch]:
        try:
            storage = tensor.untyped_storage()
            shared = storage.is_shared() and tensor.is_cpu
        except (NotImplementedError, RuntimeError):
            # A sparse tensor has no storage of its own, and one that is only described has none at all.
            return None
        known = self._known.get(storage._cdata)
        if known is None:
            if not (shared or self._accesses.threaded or self._mapped or self._taking):
                return None
            known = self._meet(storage, "")
        if shared and not known.shared:
            self._place(known, storage)
        if not (known.shared or known.taken or self._accesses.threaded or self._taking):
            return None
        span = _span(tensor, known.base)
        return None if span is None else _Touch(known, span, mode, tensor)

    def _meet(self, storage: Any, owner: str) -> _Storage:
        if len(self._known) >= self._limit:
            self._known = {at: known for at, known in self._known.items() if not known.weak.expired()}
            self._recent.clear()
            self._limit = max(_MANY, 2 * len(self._known))
        known = self._known[storage._cdata] = _Storage(self._weak(storage), owner)
        if self._mapped and not owner:
            self._place(known, storage)
        return known

    def _place(self, known: _Storage, storage: Any) -> None:
        """Find the shared mapping that a storage lies in, if it does."""
        place = shared_at(storage.data_ptr())
        if place is not None:
            known.key, known.base = place
            known.shared, known.owner, known.told = True, "", False
            known.kept.clear()

    def _own(self, value: Any) -> None:
        """Take note that this thread has made a storage."""
        if isinstance(value, self._tensor):
            try:
                storage = value.untyped_storage()
            except (NotImplementedError, RuntimeError):
                return
            if storage._cdata not in self._known:
                self._meet(storage, self._agent.sequences.current())
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._own(item)

    def _contested(self, touches: list[_Touch]) -> bool:
        name = self._agent.sequences.current()
        return any(t.mode == "rw" and t.storage.owner != name for t in touches)

    # --- what follows

    def _enter(self, op: str, touches: list[_Touch], site: str) -> None:
        """Let others move where the schedule has it so, and record what is touched."""
        agent, pointed = self._agent, False
        for storage, span, mode, tensor in touches:
            if storage.owner:
                if storage.owner == agent.sequences.current():
                    self._accesses.keep(storage.kept, op, mode, span, site)
                    continue
                self._publish(storage)
            words = "" if storage.told else _words(tensor)
            if storage.shared:
                agent.take_turn(op, mode, storage.key, span, site=site, tensor=words)
            else:
                if agent.turns is not None and not pointed:
                    agent.turns.point()
                    pointed = True
                self._accesses.access(op, mode, storage.key or self._key(storage), span, site, tensor=words)
            storage.told = True

    def _publish(self, storage: _Storage) -> None:
        owner, storage.owner = storage.owner, ""
        self._accesses.publish(owner, self._key(storage), storage.kept)

    def _key(self, storage: _Storage) -> str:
        if not storage.key:
            storage.key = f"@{self._accesses.number('storage')}"
        return storage.key

    def _run_split(self, func: Any, form: _Form, touches: list[_Touch], args: Any, kwargs: Any, site: str) -> Any:
        """Run an operator on copies of what it updates, let others move, and store."""
        reads = [_Touch(t.storage, t.span, "r", t.tensor) for t in touches if t.mode != "w"]
        self._enter(form.name, reads, site)
        copies: dict[int, tuple[Any, Any]] = {}
        args = tuple(self._copied(value, mode, copies) for mode, value in zip(form.modes, args))
        kwargs = {name: self._copied(value, form.by_name.get(name, "r"), copies) for name, value in kwargs.items()}
        result = func(*args, **kwargs)
        writes = [_Touch(t.storage, t.span, "w", t.tensor) for t in touches if t.mode != "r"]
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


def _merged(touches: list[_Touch]) -> list[_Touch]:
    """Return the touches with the same bytes named once, reads first and writes last."""
    found: dict[tuple[int, Span], _Touch] = {}
    for touch in touches:
        key = id(touch.storage), touch.span
        other = found.get(key)
        if other is None or other.mode == touch.mode:
            found[key] = touch
        else:
            found[key] = touch._replace(mode="rw")
    return sorted(found.values(), key=lambda t: t.mode)


def _span(tensor: Any, base: int) -> Optional[Span]:
    """Return the bytes that a tensor covers, or None if it has none."""
    item = tensor.element_size()
    lo = base + tensor.storage_offset() * item
    if tensor.is_contiguous():
        size = tensor.numel() * item
        return _from_to(lo, lo + size) if size else None
    shape, strides = tuple(tensor.shape), tuple(stride * item for stride in tensor.stride())
    if 0 in shape:
        return None
    hi = lo + sum((size - 1) * stride for size, stride in zip(shape, strides)) + item
    if hi - lo == tensor.numel() * item:
        return Span(lo, hi)
    return Span(lo, hi, shape, strides, item)


#: A span without gaps; the same ones come again and again.
_from_to = functools.lru_cache(maxsize=1 << 12)(Span)


def _words(tensor: Any) -> str:
    """Say what a tensor is, such as `float32 of 64×10`."""
    shape = "×".join(map(str, tensor.shape)) or "one number"
    return f"{str(tensor.dtype)[6:]} of {shape}"


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
