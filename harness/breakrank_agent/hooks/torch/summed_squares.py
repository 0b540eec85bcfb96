"""The squares of all gradients, each time that ranks add up one number: it may be their share of a norm.

And those that an optimizer takes: a norm that a rank has for itself is added up by nobody.

The norm by which ranks clip has each shard once, and each replica once. Only the program knows what its own sum is of;
the squares that are there at that moment, and those that the optimizer takes, tell it afterwards.
"""

from __future__ import annotations

from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.parameter_digest import in_parts
from breakrank_agent.hooks.torch.tensor_memory import held_of
from breakrank_agent.hooks.torch.training import Training, flatten

WAITS_FOR = "torch"

#: The last step that is looked at, and the most sums of a step.
_STEPS, _SUMS = 12, 4


def install(agent: Agent) -> None:
    """Look at gradients where one number is added up, and where an optimizer takes them, if contents are asked for."""
    if "contents" in agent.plan.evidence:
        squares = SummedSquares(agent)
        agent.services.squares = squares
        agent.on.optimize.append(squares.take)


class SummedSquares:
    """The sums of one number since the last step of an optimizer."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._sums = 0

    def meet(self, name: str, tensors: Any) -> None:
        """Record the squares of the gradients, if a call is to add up one number."""
        flat = flatten(tensors, []) if name == "allreduce_" and self._agent.clock.step <= _STEPS else []
        if len(flat) != 1 or flat[0].numel() != 1 or not flat[0].is_floating_point() or self._sums >= _SUMS:
            return
        squares = self._squares()
        if any(squares):
            self._sums += 1
            self._agent.record("squares", squares=squares)

    def take(self, number: int, _: Any) -> None:
        """Record the squares that the optimizers take, in the first steps or if a number was added up before."""
        if (number and self._sums) or (number == 1 and self._agent.clock.step <= _STEPS):
            self._sums = 0
            self._agent.record("squares", squares=self._squares(), taken=True)

    def _squares(self) -> list[float]:
        """Return the sum of the squares of each part's gradient; empty where one is not finite."""
        import torch

        training = self._agent.model.handles
        parameters = training.parameters() if isinstance(training, Training) else []
        with self._agent.quietly(), torch.no_grad():
            squares = [sum(map(_square, part)) for part in in_parts(parameters)]
        return squares if sum(squares) - sum(squares) == 0 else []


def _square(parameter: Any) -> float:
    import torch

    held = [] if parameter.grad is None else held_of(parameter.grad)
    dense = [one for one in held if one.layout is torch.strided and one.is_floating_point()]
    return sum(float(torch.linalg.vector_norm(one, dtype=torch.float64)) ** 2 for one in dense)
