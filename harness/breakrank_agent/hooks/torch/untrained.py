"""Parameters that nothing trains, and dropout that goes on in a validation: mistakes in a forward pass.

A module that is called to be trained, and whose parameters an optimizer has, gets a gradient; if it never does, its
output was detached on its way to the loss. Parameters that ask for no gradient are frozen, and those of a module that
nobody calls are not used: both may be meant. One without elements is the part of a shard that other ranks hold.

A checkpoint with `use_reentrant` calls modules without gradients, and again in the backward pass: that never comes to
it where none of its inputs needs a gradient. Two matrices of zeros, each multiplied by the other, have gradients of
zeros for ever.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Container, Iterator
from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.parameter_digest import NAME_LIMIT
from breakrank_agent.hooks.torch.tensor_memory import held_of
from breakrank_agent.hooks.torch.training import Training, parameters_of, with_gradient

WAITS_FOR = "torch"

#: The steps after which a parameter that never had a gradient is told of, and the names that are told.
_STEPS, _NAMES = 4, 4
#: The passes of validations that are looked at.
_PASSES = 4


def install(agent: Agent) -> None:
    """Look at the gradients of the first steps, and at dropout by a function of its own."""
    untrained = _Untrained(agent)
    agent.on.optimize.append(untrained.look)
    agent.on.step_end.append(untrained.tell)
    untrained.watch_checkpoints()
    _Dropout(agent).watch()


class _Untrained:
    """The parameters of the optimizers that had a gradient by now, and those that asked for one in vain."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._trained: set[int] = set()
        self._lacking: set[int] = set()
        #: The matrices of zeros with gradients of zeros, and whether another parameter has a gradient.
        self._still: set[int] = set()
        self._moved = False

    def watch_checkpoints(self) -> None:
        """See the forward passes of checkpoints with `use_reentrant`."""
        from torch.utils import checkpoint

        interpose(checkpoint.CheckpointFunction, "apply", around=self._enter)

    @contextlib.contextmanager
    def _enter(self, *args: Any, **_: Any) -> Iterator[None]:
        """Take down, in the first step, a checkpoint of which no input needs a gradient."""
        import torch

        training = self._agent.model.handles
        # In a validation nothing needs a gradient.
        first = not self._agent.clock.done and torch.is_grad_enabled()
        needed = any(isinstance(value, torch.Tensor) and value.requires_grad for value in args)
        if not first or needed or not isinstance(training, Training):
            yield
            return
        training.cut_off.append(self._agent.sites.here().line)
        try:
            yield
        finally:
            training.cut_off.pop()

    def look(self, _: int, optimizer: Any) -> None:
        """Take down which parameters have a gradient before a step, and which ask for one and have none."""
        self._trained |= with_gradient(optimizer)
        self._lacking.update(id(p) for p in parameters_of(optimizer) if p.grad is None and p.requires_grad)
        if self._agent.clock.done == _STEPS - 1:
            self._look_for_zeros(optimizer)

    def _look_for_zeros(self, optimizer: Any) -> None:
        """Take down matrices that are zeros and have gradients of zeros, and whether anything else has others."""
        import torch

        with self._agent.quietly(), torch.no_grad():
            for parameter in (p for p in parameters_of(optimizer) if p.grad is not None and p.numel()):
                if any(bool(held.any()) for held in held_of(parameter.grad)):
                    self._moved = True
                elif parameter.dim() > 1 and not any(bool(held.any()) for held in held_of(parameter)):
                    self._still.add(id(parameter))

    def tell(self) -> None:
        """Record, once, the parameters without a gradient whose modules were called in the first step."""
        training = self._agent.model.handles
        if self._agent.clock.done < _STEPS or not isinstance(training, Training):
            return
        self._agent.on.optimize.remove(self.look)
        self._agent.on.step_end.remove(self.tell)
        # One that was frozen until now, and is freed, asked for none.
        lacking = self._called(training, self._lacking - self._trained)
        behind = [line for module, line in training.behind_checkpoints.items() if self._has(module, lacking)]
        if lacking and self._trained:
            self._record(lacking, **({"checkpoint": behind[0]} if behind else {}))
        elif len(self._still) > 1 and self._moved:
            self._record(self._called(training, self._still), zeros=True)

    def _record(self, found: dict[int, str], **how: Any) -> None:
        if found:
            self._agent.record("untrained", parameters=len(found), names=[*found.values()][:_NAMES], **how)

    def _has(self, module: Any, among: Container[int]) -> bool:
        return any(id(parameter) in among for parameter in module.parameters(recurse=False))

    def _called(self, training: Training, chosen: set[int]) -> dict[int, str]:
        """Return the names of those parameters that can be trained and whose modules were called in the first step."""
        owned = {id(p) for p in training.parameters() if p.requires_grad and p.numel()} & chosen
        found = {}
        for outermost in (known() for known in training.modules):
            for name, inner in outermost.named_modules() if outermost is not None else ():
                for own, parameter in inner.named_parameters(name, recurse=False) if inner in training.called else ():
                    if id(parameter) in owned:
                        found[id(parameter)] = own[:NAME_LIMIT]
        return found


class _Dropout:
    """Calls of `torch.nn.functional.dropout` that drop elements in a validation.

    The function is wrapped during the first passes of a validation alone, and never once something was compiled: the
    compiler would find another function in its place.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._left = _PASSES
        self._plain: Any = None
        self._told = False

    def watch(self) -> None:
        """Watch the passes of outermost modules, and whether anything is compiled."""
        import torch

        interpose(torch, "compile", self._stop)
        self._agent.on.evaluated.append(self._enter)

    def _stop(self, *_: Any, **__: Any) -> None:
        self._left = 0

    def _enter(self, module: Any) -> None:
        """Wrap the function, if this is a pass of a validation."""
        import torch
        from torch.nn import functional

        if not self._left:
            self._agent.on.evaluated.remove(self._enter)
        elif not torch.is_grad_enabled():
            self._left -= 1
            self._plain = functional.dropout
            interpose(functional, "dropout", self._meet)
            self._agent.on.forwarded.append(self._leave)

    def _leave(self) -> None:
        """Put the function back."""
        from torch.nn import functional

        functional.dropout, self._plain = self._plain, None
        self._agent.on.forwarded.remove(self._leave)

    def _meet(self, _: Any, p: float = 0.5, training: bool = True, *__: Any, **___: Any) -> None:
        """Record the first call of the program's own that drops elements."""
        # A module for dropout that is in train mode was put into it by somebody.
        if training and p and not sys._getframe(2).f_code.co_filename.endswith("dropout.py"):
            self._left = 0
            if not self._told:
                self._told = True
                self._agent.record("dropout", site=self._agent.sites.here().line)
