"""Parameters at the end of a model that no optimizer has, while one has all before them: a head that nothing trains.

People leave parameters out on purpose, too, and need not freeze them for that: an embedding, a body below a head, a
network that was trained before, a teacher. So this is about those at the end alone, or about a wrapper of their own,
which reduces gradients that nobody takes; and not about what a state was loaded into, or what moves by other means.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.parameter_digest import NAME_LIMIT
from breakrank_agent.hooks.torch.tensor_memory import held_of
from breakrank_agent.hooks.torch.training import Training, parameters_of

WAITS_FOR = "torch"

#: The step after which parameters are remembered, the one after which they are told of, and the names that are told.
_FIRST, _STEPS, _NAMES = 2, 4, 4


def install(agent: Agent) -> None:
    """Look at the ends of some steps, and take down what states are loaded into."""
    import torch

    forgotten = _Forgotten(agent)
    interpose(torch.nn.Module, "load_state_dict", forgotten.load)
    agent.on.step_end.append(forgotten.look)


class _Mark(NamedTuple):
    """A parameter, and its element whose gradient was the largest."""

    name: str
    parameter: Any
    place: int
    value: float

    def moved(self) -> bool:
        """Return whether the element is another number by now."""
        return bool(held_of(self.parameter)[0].reshape(-1)[self.place].item() != self.value)


class _Forgotten:
    """The parameters that have a gradient and no optimizer."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._loaded: weakref.WeakSet[Any] = weakref.WeakSet()
        self._marks: list[_Mark] = []

    def load(self, module: Any, *_: Any, **__: Any) -> None:
        """Take down that a state is loaded into a module."""
        self._loaded.add(module)

    def look(self) -> None:
        """Remember such parameters, tell of those that stay as they are, and tell if they move after all."""
        import torch

        done, training = self._agent.clock.done, self._agent.model.handles
        if done < _FIRST or (done > _STEPS and not self._agent.samples_now()):
            return
        with self._agent.quietly(), torch.no_grad():
            if done == _FIRST and isinstance(training, Training):
                self._marks = _marks(training, self._loaded)
            elif done > _FIRST and any(mark.moved() for mark in self._marks):
                if done > _STEPS:
                    self._record(moved=True)
                self._marks = []
            elif done == _STEPS and self._marks and isinstance(training, Training):
                still = {id(parameter) for _, parameter in _left(training, self._loaded)}
                self._marks = [mark for mark in self._marks if id(mark.parameter) in still]
                if self._marks:
                    self._record()
        if not self._marks:
            self._agent.on.step_end.remove(self.look)

    def _record(self, **facts: bool) -> None:
        names = [mark.name[:NAME_LIMIT] for mark in self._marks]
        self._agent.record("forgotten", parameters=len(names), names=names[:_NAMES], **facts)


def _marks(training: Training, loaded: weakref.WeakSet[Any]) -> list[_Mark]:
    """Return marks of the parameters that are left out and have a gradient other than 0."""
    found = []
    for name, parameter in _left(training, loaded):
        own, taken = held_of(parameter)[:1], held_of(parameter.grad)[:1]
        if own and taken and own[0].shape == taken[0].shape and own[0].numel():
            sizes = taken[0].abs().reshape(-1)
            place = int(sizes.argmax())
            if float(sizes[place]) > 0:
                found.append(_Mark(name, parameter, place, own[0].reshape(-1)[place].item()))
    return found


def _left(training: Training, loaded: weakref.WeakSet[Any]) -> list[tuple[str, Any]]:
    """Return the parameters with a gradient at the end of each model in use that are in no optimizer that lives."""
    from torch.nn.parallel import DistributedDataParallel

    owned = {id(p) for one in {*training.made, *training.optimizers.all()} for p in parameters_of(one)}
    filled = {id(p) for module in list(loaded) for p in module.parameters()}
    found: dict[int, tuple[str, Any]] = {}
    for module in (one for known in training.modules if (one := known()) is not None):
        asking = [(name, p) for name, p in module.named_parameters() if p.requires_grad and p.grad is not None]
        has = [id(p) in owned for _, p in asking]
        ours = sum(has)
        # All before are in an optimizer, and are no fewer; or a wrapper was made for what is in none.
        if all(has[:ours]) and (len(has) <= 2 * ours if ours else isinstance(module, DistributedDataParallel)):
            left = asking[ours:]
            if not any(id(p) in filled for _, p in left):
                found.update((id(p), (name, p)) for name, p in left)
    return list(found.values())
