"""The training loop of a torch program: backward, optimizer, outermost module, and the parameters.

Nothing is wrapped per module or per tensor: `backward` once, the optimizer by torch's own global step hooks, the
outermost module through its class, after the first step has shown which one it is.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
import weakref
from itertools import chain
from operator import itemgetter
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.model import NoHandles
from breakrank_agent.agent.optimizers import Optimizers, take_in
from breakrank_agent.agent.parameter_digest import in_parts, summary_of
from breakrank_agent.agent.sketch import Sketch
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks.torch.tensor_memory import (
    are_finite,
    feed,
    floating_of,
    held_of,
    numbers_of,
    raw_bytes,
    words_of,
)
from breakrank_agent.protocol.bits import Words

WAITS_FOR = "torch"
IN_CHILDREN = True

_parameters_of_group = itemgetter("params")


def install(agent: Agent) -> None:
    """Hook torch, which has just been imported."""
    import torch

    agent.sites.add_foreign(os.path.dirname(torch.__file__))
    # It wraps those of torch's functions that are out of favour.
    wrapper = getattr(sys.modules.get("typing_extensions"), "__file__", None)
    if wrapper:
        agent.sites.add_foreign(wrapper)
    if agent.recorder.child:
        return
    if agent.plan.pin:
        torch.manual_seed(agent.plan.seed)
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)
    training = Training(agent)
    agent.model.adopt(training, trains=False)
    agent.record("note", text=f"torch {torch.__version__}", torch=torch.__version__)
    _wrap_backward(agent, training)
    _hook_optimizers(agent, training)
    _Outermost(agent, training).discover()


class Training(NoHandles):
    """The training of a rank: the parameters of its optimizers. One of them counts the steps."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.constructed = False
        #: All optimizers that live, whether they have stepped or not.
        self.made: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The optimizers that have stepped, and how the record names the one that counts the steps.
        self.optimizers = Optimizers(parameters_of)
        self.steps_by = ""
        #: The outermost modules that were called in the first step, by weak reference: they know the parameters' names.
        self.modules: list[weakref.ref[Any]] = []
        #: All modules that were called in the first step to train them.
        self.called: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The checkpoints that are being entered of which no input needs a gradient: by the lines that call them.
        self.cut_off: list[str] = []
        #: The modules that such a checkpoint called in the first step, each with its line.
        self.behind_checkpoints: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.settled = False  # True once all outermost modules are known.
        #: The plain tensors in floating point that held the parameters when it was asked last, by identity.
        self._plain: list[int] = []

    def meet(self, module: Any) -> None:
        """Take in a module that is called to be trained in the first step."""
        self.called.add(module)
        if self.cut_off:
            self.behind_checkpoints[module] = self.cut_off[-1]

    def take(self, optimizer: Any) -> None:
        """Take in an optimizer that is about to step."""
        take_in(self._agent, self, optimizer)

    def parameters(self) -> list[Any]:
        """Return the parameters, each once, in the optimizers' order."""
        found = [*chain.from_iterable(map(parameters_of, self.optimizers.all()))]
        return list(dict(zip(map(id, found), found)).values())

    def left(self) -> dict[str, Any]:
        """Return a digest of the outermost modules' parameters, where no optimizer has stepped; empty without any.

        Nothing says that they are replicas: they are compared with the same rank's of another run alone.
        """
        import torch

        modules = [module for known in self.modules if (module := known()) is not None]
        parameters = {id(p): p for module in modules for p in module.parameters()}
        if self.optimizers.first is not None or not parameters:
            return {}
        digest = hashlib.blake2b(digest_size=8)
        with self._agent.quietly(), torch.no_grad():
            for parameter in parameters.values():
                feed(digest, parameter)
        return {"modules": digest.hexdigest()}

    def buffers(self) -> list[tuple[str, memoryview]]:
        """Return (name, writable bytes) of every parameter. Raises `RuntimeError` when there are none yet."""
        found = [(f"parameter {i}", raw_bytes(h)) for i, p in enumerate(self.parameters()) for h in held_of(p)]
        if not found:
            raise RuntimeError("no optimizer has stepped yet, so no parameters are known")
        return found

    def gradients(self) -> list[tuple[str, memoryview]]:
        """Return (name, writable bytes) of each dense gradient on a CPU. Raises `RuntimeError` when there is none."""
        found = [
            (f"gradient {i}", raw_bytes(held))
            for i, p in enumerate(self.parameters())
            for held in ([] if p.grad is None else held_of(p.grad))
            if held.device.type == "cpu" and not held.is_sparse and held.is_contiguous()
        ]
        if not found:
            raise RuntimeError("no parameter has a gradient at this point")
        return found

    def words(self, of: str) -> list[Words]:
        """Return the memory of dense tensors on a CPU. Raises `LookupError` when there is none."""
        known: dict[str, Callable[[], list[Any]]] = {
            "parameters": self.parameters,
            "gradients": lambda: [p.grad for p in self.parameters() if p.grad is not None],
            "optimizer state": self._state,
        }
        return words_of(of, (held for tensor in known[of]() for held in held_of(tensor)))

    def _state(self) -> list[Any]:
        """Return the tensors that the optimizers keep for each parameter; a number alone, such as a count, is none."""
        import torch

        states = [one.state.get(p, {}) for one in self.optimizers.all() for p in parameters_of(one)]
        return [v for state in states for v in state.values() if isinstance(v, torch.Tensor) and v.dim()]

    def summarize(self) -> dict[str, Any]:
        """Return the digest, the norm and the finiteness of the parameters, and of their parts; empty without any.

        See `breakrank_agent.agent.parameter_digest.summary_of`.
        """
        import torch

        parameters = self.parameters()
        if not parameters:
            return {}
        with self._agent.quietly(), torch.no_grad():
            parts, squares = [], []
            for part in in_parts(parameters):
                digest, square = hashlib.blake2b(digest_size=8), 0.0
                for held in (held for parameter in part for held in held_of(parameter)):
                    here = held.detach().cpu().contiguous()
                    digest.update(raw_bytes(here))
                    if here.is_floating_point():
                        # Without a copy in double precision, whose memory would be new each time: 20 times as fast.
                        square += float(torch.linalg.vector_norm(here, dtype=torch.float64)) ** 2
                parts.append(digest.digest())
                squares.append(square)
        return summary_of(parts, squares, norms="norms" in self._agent.plan.evidence)

    def sketch(self) -> dict[str, Any]:
        """Return the sketches of the parameters' parts; empty without any."""
        import torch

        with self._agent.quietly(), torch.no_grad():
            sketch = Sketch(lambda signs: torch.frombuffer(bytearray(signs), dtype=torch.int8).double())
            for part in in_parts(self.parameters()):
                sketch.add(numbers_of(held) for parameter in part for held in held_of(parameter))
        return sketch.facts()

    def is_finite(self) -> bool:
        """Return whether all parameters are finite."""
        import torch

        with self._agent.quietly(), torch.no_grad():
            held = floating_of(self.parameters(), self._plain)
            self._plain = [*map(id, held)]
            return are_finite(held)


def number_of(agent: Agent, optimizer: Any) -> int:
    """Return the number of an optimizer that steps, in the order of their first steps; 0 if it is none that trains."""
    training = agent.model.handles
    if not isinstance(training, Training) or agent.services.sharded.makes_state or agent.recorder.over:
        return 0
    if optimizer is training.optimizers.first:
        return 1
    return next((i for i, one in enumerate(training.optimizers.all(), 1) if one is optimizer), 0)


def parameters_of(optimizer: Any) -> list[Any]:
    """Return the parameters of one optimizer, in its order."""
    # Each step asks for them: without a turn of a loop of ours for each.
    return [*chain.from_iterable(map(_parameters_of_group, getattr(optimizer, "param_groups", ())))]


def with_gradient(optimizer: Any) -> set[int]:
    """Return the parameters of one optimizer that have a gradient, by identity."""
    return {id(p) for p in parameters_of(optimizer) if p.grad is not None}


def flatten(value: Any, into: list[Any]) -> list[Any]:
    """Append what is not None in nested lists to `into`, and return that."""
    if isinstance(value, (list, tuple)):
        for item in value:
            flatten(item, into)
    elif value is not None:
        into.append(value)
    return into


def _wrap_backward(agent: Agent, training: Training) -> None:
    """Wrap `backward`. By hand, as each step pays for it."""
    import torch

    original, recorder, sequences, services = torch.autograd.backward, agent.recorder, agent.sequences, agent.services
    reach, looks = agent.reach, agent.on.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        reach("backward")
        own, outer = threading.get_ident() == recorder.main, sequences.backward
        if own:
            sequences.backward = sys._getframe(1)
            if looks:
                _look(agent, looks, args[0] if args else kwargs.get("tensors"))
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            if isinstance(error, Exception):
                agent.raised("backward", error)
            if own:
                sequences.backward = outer
            raise
        if own:
            sequences.backward = outer
        if services.works is not None:
            # DDP has waited for its all-reduces by now.
            services.works.look_back()
        if own and not training.constructed:
            # Without any optimizer, a step is a backward pass.
            agent.close_step("backward")
        return result

    torch.autograd.backward = backward


def _look(agent: Agent, looks: list[Callable[..., None]], *args: Any) -> None:
    """Call subscribers. It does what `Agent.guard` does by hand, as each step pays for it."""
    # One that has seen enough takes itself off the list.
    for look in tuple(looks):
        try:
            look(*args)
        except Exception as error:
            agent.note_failure(error)


def _hook_optimizers(agent: Agent, training: Training) -> None:
    from torch.optim import optimizer as module

    sharded, optimizers, on, recorder = agent.services.sharded, training.optimizers, agent.on, agent.recorder
    reach, close_step = agent.reach, agent.close_step

    def construct(optimizer: Any, *_: Any, **__: Any) -> None:
        training.constructed = True
        training.made.add(optimizer)

    interpose(module.Optimizer, "__init__", construct)

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if sharded.makes_state:
            return
        if optimizer is not optimizers.first or optimizers.between:
            training.take(optimizer)
            if on.other_optimizer:
                _look(agent, on.other_optimizer)
        reach("optimize")
        if on.optimize and not recorder.over:
            _look(agent, on.optimize, number_of(agent, optimizer), optimizer)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if optimizer is optimizers.first and not sharded.makes_state:
            if optimizers.others or optimizers.kept:
                optimizers.keep()
            close_step(training.steps_by)
        if on.optimized and not recorder.over:
            _look(agent, on.optimized, number_of(agent, optimizer), optimizer)

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


class _Outermost:
    """Finds the outermost module in the first step, by the call of every module, then wraps its class alone.

    A module without parameters, such as a loss, is none. Hooks on the instance are not used: they would be saved with
    the module, nor torch's global ones, of which its compiler warns.
    """

    def __init__(self, agent: Agent, training: Training) -> None:
        self._agent = agent
        self._training = training
        self._depth = 0
        self._found: list[type[Any]] = []

    def discover(self) -> None:
        import torch

        self._call = torch.nn.Module.__call__
        self._wrap(torch.nn.Module, self._meet, self._settle, self._training.meet)

    def _meet(self, called: Any, args: Any, kwargs: Any) -> None:
        """Take the class of a module, and the module, down as outermost, if it has parameters."""
        if next(called.parameters(), None) is not None:
            if type(called) not in self._found:
                self._found.append(type(called))
            if not any(known() is called for known in self._training.modules):
                self._training.modules.append(weakref.ref(called))
            self._enter(called, args, kwargs)

    def _enter(self, called: Any, args: Any, kwargs: Any) -> None:
        """Enter the forward pass of an outermost module, which is handed these arguments."""
        agent, on = self._agent, self._agent.on
        agent.reach("forward")
        if on.handed:
            _look(agent, on.handed, args, kwargs)
        if on.forward:
            _look(agent, on.forward, called)
        if on.evaluated and not getattr(called, "training", True):
            _look(agent, on.evaluated, called)

    def _settle(self) -> None:
        """Once the first step is over, watch only the classes found."""
        import torch

        if self._agent.clock.done and self._found:
            torch.nn.Module.__call__ = self._call
            self._training.settled = True
            for kind in self._found:
                self._wrap(kind, self._enter, None)

    def _wrap(
        self,
        kind: Any,
        enter: Callable[[Any, Any, Any], None],
        leave: Optional[Callable[[], None]],
        each: Optional[Callable[[Any], None]] = None,
    ) -> None:
        """Call `enter` and `leave` around the outermost calls of a class's modules, and `each` for all that train.

        By hand, as each step pays for it.
        """
        import torch

        original, agent, quiet, passed = kind.__call__, self._agent, self._agent.quiet, self._agent.on.forwarded
        cut_off = self._training.cut_off

        @functools.wraps(original)
        def calling(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            if each is not None and (torch.is_grad_enabled() or cut_off):
                agent.guard(each, module)
            if self._depth == 0 and not (quiet and agent.busy):
                enter(module, args, kwargs)
            self._depth += 1
            try:
                return original(module, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                self._depth -= 1
                if self._depth == 0:
                    if passed:
                        _look(agent, passed)
                    if leave is not None:
                        leave()

        kind.__call__ = calling
