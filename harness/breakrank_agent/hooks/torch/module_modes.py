"""Modes of the modules that are trained: train or eval mode, in which dropout and batch norm do something else."""

from __future__ import annotations

import weakref
from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.torch.training import Training, parameters_of

WAITS_FOR = "torch"

#: Beginnings of the names of classes that compute something else in eval mode.
_MODAL = ("Dropout", "BatchNorm", "SyncBatchNorm", "AlphaDropout", "FeatureAlphaDropout", "InstanceNorm")


def install(agent: Agent) -> None:
    """Look at the modes when an optimizer is about to step."""
    modes = _Modes(agent)
    agent.on.optimize.append(modes.look)
    agent.on.other_optimizer.append(modes.begin)


class _Modes:
    """The mode in which each optimizer's modules were when it stepped last."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._told: dict[int, bool] = {}
        #: The modules of each optimizer that depend on the mode, and how many outermost ones were known then.
        self._modules: dict[int, tuple[int, list[weakref.ref[Any]]]] = {}

    def begin(self) -> None:
        """Look again: an optimizer steps that others may not have stepped before."""
        if self.look not in self._agent.on.optimize:
            self._agent.on.optimize.append(self.look)

    def look(self, number: int, optimizer: Any) -> None:
        """Record the mode of an optimizer's outermost modules, if it is new."""
        training = self._agent.model.handles
        if not isinstance(training, Training) or not number:
            return
        count, modules = self._modules.get(number, (-1, []))
        if count != len(training.modules):
            modules = _modal_modules(training, optimizer)
            self._modules[number] = len(training.modules), modules
        if not modules:
            if training.settled and not training.optimizers.others:
                # The only optimizer has none, and there will be no other modules.
                self._agent.on.optimize.remove(self.look)
            return
        flags = [module.training for known in modules if (module := known()) is not None]
        if flags and self._told.get(number) != all(flags):
            self._told[number] = all(flags)
            self._agent.record("mode", optimizer=number, train=all(flags))


def _modal_modules(training: Training, optimizer: Any) -> list[weakref.ref[Any]]:
    """Return the outermost modules that depend on the mode, and have a parameter of the optimizer's."""
    own, found = set(map(id, parameters_of(optimizer))), []
    for known in training.modules:
        module = known()
        if module is None or not any(id(parameter) in own for parameter in module.parameters()):
            continue
        if any(type(inner).__name__.startswith(_MODAL) for inner in module.modules()):
            found.append(known)
    return found
