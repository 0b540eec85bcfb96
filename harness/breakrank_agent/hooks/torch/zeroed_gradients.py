"""Gradients that nothing zeroes between the steps of an optimizer, so that each step takes those of all before it.

An optimizer is watched until its gradients are seen to be gone, or zero, once. Of two optimizers, such as those of a
GAN, each may find gradients of the other's backward pass, which are zeroed before its own: so it is asked before each
backward pass.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.torch.training import parameters_of

WAITS_FOR = "torch"

#: The times between two steps for which nothing may have zeroed the gradients before it is said.
_TIMES = 3


class _Gap(NamedTuple):
    """The time since an optimizer's last step: the parameter that is looked at, its gradient then, and backward passes.

    It is the smallest parameter that has a gradient.
    """

    parameter: Any
    gradient: weakref.ref[Any]
    passes: list[bool]


def install(agent: Agent) -> None:
    """Watch backward passes and the steps of optimizers, until each optimizer's gradients were zeroed."""
    watch = _Watch(agent)
    agent.on.optimized.append(watch.begin)
    agent.on.other_optimizer.append(watch.begin_anew)


class _Watch:
    """The optimizers whose gradients nothing has zeroed yet."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        #: By the optimizer's number: the time since its last step, and how often nothing was zeroed.
        self._gaps: dict[int, _Gap] = {}
        self._times: dict[int, int] = {}
        self._known: set[int] = set()

    def begin_anew(self) -> None:
        """Watch again: an optimizer steps that may be a new one."""
        if self.begin not in self._agent.on.optimized:
            self._agent.on.optimized.append(self.begin)

    def begin(self, number: int, optimizer: Any) -> None:
        """Begin the time after a step, unless all is known of an optimizer: then nothing asks until another steps."""
        if number in self._known:
            self._agent.on.optimized.remove(self.begin)
        elif number:
            graded = [p for p in parameters_of(optimizer) if p.grad is not None and not p.grad.is_sparse]
            if not graded:
                self._known.add(number)
                return
            smallest = min(graded, key=lambda p: int(p.numel()))
            if not self._gaps:
                self._agent.on.backward.append(self.look)
                self._agent.on.optimize.append(self.end)
            self._gaps[number] = _Gap(smallest, weakref.ref(smallest.grad), [])

    def look(self, _: Any) -> None:
        """Look before a backward pass whose gradients are still there."""
        for number, gap in [*self._gaps.items()]:
            gap.passes.append(True)
            known = gap.gradient()
            with self._agent.quietly():
                kept = known is not None and known is gap.parameter.grad and bool(known.any())
            if not kept:
                self._known.add(number)
                self._close(number)

    def _close(self, number: int) -> Optional[_Gap]:
        """Take a gap out; without any, nothing is asked before backward passes and steps."""
        gap = self._gaps.pop(number, None)
        if gap is not None and not self._gaps:
            self._agent.on.backward.remove(self.look)
            self._agent.on.optimize.remove(self.end)
        return gap

    def end(self, number: int, optimizer: Any) -> None:
        """End the time before a step, and say so when nothing was zeroed for the last of several times."""
        gap = self._close(number)
        if gap is None or not gap.passes or gap.gradient() is not gap.parameter.grad:
            return
        self._times[number] = self._times.get(number, 0) + 1
        if self._times[number] == _TIMES:
            self._known.add(number)
            self._agent.record("unzeroed", optimizer=number, steps=_TIMES + 1)
