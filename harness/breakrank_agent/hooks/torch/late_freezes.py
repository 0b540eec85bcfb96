"""Parameters that are frozen too late: after their wrapper was made, or after they were trained.

A DistributedDataParallel waits for a gradient of each parameter that asked for one when it was made, and reduces none
of its bucket until it comes. A model whose own `train()` freezes layers is meant to have that called before its first
step. To freeze layers by a schedule is a choice: only the first `train()` is looked at, and only if it comes later.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.parameter_digest import NAME_LIMIT
from breakrank_agent.hooks.torch.training import Training, with_gradient

WAITS_FOR = "torch"

#: The mode of a call of `train()`, and the parameters that it may freeze, by name.
_Call = tuple[bool, dict[str, Any]]
#: The last step in whose forward passes wrappers are looked at.
_STEPS = 4


def install(agent: Agent) -> None:
    """See wrappers that are made, and each call of a model's `train()`."""
    import torch

    if torch.distributed.is_available():
        _Wrapped(agent).watch()
    _Trains(agent).watch()


class _Wrapped:
    """The wrappers of this rank, and the parameters that asked for a gradient when each was made, by name."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._made: list[tuple[weakref.ref[Any], dict[str, weakref.ref[Any]]]] = []

    def watch(self) -> None:
        """See every wrapper when it decides which gradients to wait for."""
        from torch.nn.parallel import DistributedDataParallel

        if not hasattr(DistributedDataParallel, "_build_params_for_reducer"):
            return
        interpose(DistributedDataParallel, "_build_params_for_reducer", partial(self._agent.guard, self._meet))
        self._agent.on.forward.append(self._look)
        self._agent.on.step_end.append(self._end)

    def _meet(self, wrapper: Any) -> None:
        named = wrapper.module.named_parameters()
        asking = {name: p for name, p in named if p.requires_grad and name not in wrapper.parameters_to_ignore}
        self._made.append((weakref.ref(wrapper), {name: weakref.ref(p) for name, p in asking.items()}))

    def _end(self) -> None:
        if self._agent.clock.done >= _STEPS:
            self._agent.on.step_end.remove(self._end)
            self._agent.on.forward.remove(self._look)

    def _look(self, module: Any) -> None:
        """Record, once, what was frozen meanwhile, before a pass through a wrapper that is to reduce gradients."""
        import torch

        if not self._made or not torch.is_grad_enabled():
            return
        inside = {id(inner) for inner in module.modules()}
        for known, asking in self._made:
            wrapper = known()
            if (
                wrapper is None
                or id(wrapper) not in inside
                or not getattr(wrapper, "require_backward_grad_sync", False)
            ):
                continue
            frozen = [name for name, held in asking.items() if (p := held()) is not None and not p.requires_grad]
            # A wrapper that has nothing to train waits for nothing: one of two models that are trained in turn.
            if frozen and len(frozen) < len(asking) and not (wrapper.find_unused_parameters or wrapper.static_graph):
                self._made = []
                _tell(self._agent, frozen, wrapped=True, site="")
                return


class _Trains:
    """The calls of `train()`, by classes that have one of their own."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        #: The modules that were put into train mode by now, and the parameters that were trained in the first step.
        self._put: weakref.WeakSet[Any] = weakref.WeakSet()
        self._trained: set[int] = set()
        #: Parameters that a call for eval mode froze: another one for train mode may free them again.
        self._pending: dict[str, Any] = {}
        self._told = False

    def watch(self) -> None:
        """See each module that is put into train mode, and after the first step which parameters that freezes."""
        import torch

        interpose(torch.nn.Module, "train", self._guarded(self._meet))
        self._agent.on.optimize.append(self._look)
        self._agent.on.step_end.append(self._settle)

    def _guarded(self, look: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._agent.guard(partial(look, **kwargs), *args)

    def _meet(self, module: Any, mode: Any = True, *_: Any, **__: Any) -> None:
        if mode:
            self._put.add(module)

    def _look(self, _: int, optimizer: Any) -> None:
        self._trained |= with_gradient(optimizer)

    def _settle(self) -> None:
        """Wrap the classes that put their modules into train mode by a method of their own, once a step was made."""
        import torch

        training = self._agent.model.handles
        if not isinstance(training, Training):
            return
        self._agent.on.optimize.remove(self._look)
        self._agent.on.step_end.remove(self._settle)
        kinds = {kind: None for module in training.called for kind in type(module).__mro__}
        for kind in kinds:
            if "train" in vars(kind) and kind is not torch.nn.Module and not kind.__module__.startswith("torch."):
                interpose(kind, "train", self._guarded(self._begin), self._guarded(self._end))

    def _begin(self, module: Any, mode: Any = True, *rest: Any, **more: Any) -> Optional[_Call]:
        """Return the mode, and the parameters that a call may freeze; None after the first call for train mode.

        It is None, too, if the method has another use: some call their loop `train`.
        """
        if self._told or not isinstance(mode, bool) or rest or more or module in self._put:
            return None
        return mode, {name: p for name, p in module.named_parameters() if p.requires_grad and id(p) in self._trained}

    def _end(self, call: Optional[_Call], _: Any) -> None:
        if call is None:
            return
        mode, asking = call
        frozen = {name: p for name, p in {**self._pending, **asking}.items() if not p.requires_grad}
        self._pending = {} if mode else frozen
        if mode and frozen and not self._told:
            self._told = True
            _tell(self._agent, [*frozen], wrapped=False, site=self._agent.sites.here().line)


def _tell(agent: Agent, names: list[str], wrapped: bool, site: str) -> None:
    name = names[0][:NAME_LIMIT]
    agent.record("frozen", parameters=len(names), name=name, steps=agent.clock.done, wrapped=wrapped, site=site)
