"""Optimizers of parameters that no module in use has: a module was copied, or made anew, after its optimizer.

Such parameters have no gradient. That alone is legal, as a part of a model may rest for a while. Together with
parameters that have a gradient and are in no optimizer it is not. So it is with an optimizer whose parameters are all
frozen.
"""

from __future__ import annotations

from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.parameter_digest import NAME_LIMIT
from breakrank_agent.hooks.torch.training import Training, parameters_of, with_gradient

WAITS_FOR = "torch"

#: The step after which it is looked at: an optimizer may have its first step later than others.
_STEP = 2
#: The most names that are recorded.
_MOST = 4


def install(agent: Agent) -> None:
    """Look once, at the end of the second step."""
    trained: set[int] = set()

    def meet(_: int, optimizer: Any) -> None:
        trained.update(with_gradient(optimizer))

    def look() -> None:
        training = agent.model.handles
        if agent.clock.done >= _STEP:
            agent.on.step_end.remove(look)
            agent.on.optimize.remove(meet)
        if agent.clock.done == _STEP and isinstance(training, Training):
            for facts in _stray(training, trained):
                agent.record("stray", **facts)

    agent.on.optimize.append(meet)
    agent.on.step_end.append(look)


def _stray(training: Training, trained: set[int]) -> list[dict[str, Any]]:
    """Return what is to be said of each optimizer that has parameters of no module in use, or frozen ones alone."""
    modules = [module for known in training.modules if (module := known()) is not None]
    held = {id(p) for module in modules for p in module.parameters()}
    used = {id(p): name for module in modules for name, p in module.named_parameters() if p.requires_grad}
    owned = {id(p) for p in training.parameters()}
    graded = [p for module in modules for p in module.parameters() if p.grad is not None and id(p) not in owned]
    unowned = [used[id(p)][:NAME_LIMIT] for p in graded if id(p) in used][:_MOST]
    found = []
    for number, optimizer in enumerate(training.optimizers.all(), 1):
        own = parameters_of(optimizer)
        stray = [p for p in own if p.grad is None and id(p) not in held]
        if unowned and stray:
            found.append({"optimizer": number, "parameters": len(stray), "unowned": unowned})
        elif unowned and all(not p.requires_grad and id(p) in held and id(p) not in trained for p in own):
            found.append({"optimizer": number, "parameters": len(own), "unowned": unowned, "frozen": True})
    return found
