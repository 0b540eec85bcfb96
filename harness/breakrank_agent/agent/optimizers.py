"""Optimizers: those of a rank that have stepped, in the order of their first steps.

The first to step counts the steps, until another one has taken its place. A program may train in phases, each with an
optimizer of its own, or make one anew for each fold. Others have several that stay, and each of them steps in its turn.
So an optimizer hands over to one that has stepped twice since, and that has its parameters, or as many of the same
shapes. It hands over to any other one after many more steps than ever lay between two of its own.

An inner optimizer is made anew for each task of meta-learning, on a copy of the model, while another one stays. Such a
copy is thrown away. Once that shows, the one that stays counts the steps, and the parameters of the others are none
of the training's.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent

#: The steps of an optimizer that has the first one's parameters, or the like, by which it takes over.
_TWICE = 2
#: The least number of steps of others, and how many times as many as ever lay between two steps of the first.
_MANY, _TIMES = 16, 4

#: Returns the parameters of an optimizer, in its order.
Parameters = Callable[[Any], "list[Any]"]


class _Known:
    """An optimizer that has stepped, by weak reference, and its steps since the one that counts has stepped.

    `reigns` are the numbers of those beside which it has stepped, one after the other.
    """

    def __init__(self, optimizer: Any) -> None:
        self.reference = weakref.ref(optimizer)
        self.steps = 0
        self.reigns: set[int] = set()


class Optimizers:
    """The optimizers that have stepped. The one that counts the steps is never let go; the others may be."""

    def __init__(self, parameters: Parameters) -> None:
        self.first: Any = None
        self._parameters = parameters
        #: A program may make new ones as it goes: those that it has let go are not ours to keep.
        self.others: list[_Known] = []
        #: Those that were there when a step ended: they are not let go before the end is on record.
        self.kept: list[Any] = []
        #: The steps of others since the last step of the one that counts, and the most of them that there have been.
        self.between = self._most = 0
        #: The number of those that have counted the steps and were replaced by the like.
        self._reign = 0
        #: The shapes of what inner optimizers train, once they are known to be inner ones.
        self._inner: Optional[tuple[str, ...]] = None

    def meet(self, optimizer: Any) -> None:
        """Take in an optimizer that is there, and does not step yet."""
        if self.first is None:
            self.first = optimizer
        elif optimizer is not self.first:
            self._find(optimizer)

    def take(self, optimizer: Any) -> None:
        """Take in an optimizer that is about to step, perhaps as the one that counts the steps."""
        if optimizer is self.first:
            if self.between:
                self._most = max(self._most, self.between)
                self._rest()
            return
        if self.first is None:
            self.first = optimizer
            return
        known = self._find(optimizer)
        if known is None:
            return
        self.between += 1
        known.steps += 1
        known.reigns.add(self._reign)
        if known.steps == _TWICE and self._follows(optimizer):
            self._replace(optimizer)
        elif self.between > max(_MANY, _TIMES * self._most):
            self.others.insert(0, _Known(self.first))
            self._begin(optimizer)

    def _find(self, optimizer: Any) -> Optional[_Known]:
        """Return what is known of an optimizer; None of an inner one."""
        for known in self.others:
            if known.reference() is optimizer:
                return known
        if self._inner is not None and self._shapes(optimizer) == self._inner:
            return None
        self.others.append(_Known(optimizer))
        return self.others[-1]

    def _shapes(self, optimizer: Any) -> tuple[str, ...]:
        return tuple(str(getattr(one, "shape", None)) for one in self._parameters(optimizer))

    def _follows(self, optimizer: Any) -> bool:
        """Return whether an optimizer has the parameters of the one that counts, or as many of the same shapes."""
        own, theirs = (set(map(id, self._parameters(one))) for one in (self.first, optimizer))
        alike = not own & theirs and self._shapes(optimizer) == self._shapes(self.first)
        return bool(own) and (own <= theirs or alike)

    def _replace(self, optimizer: Any) -> None:
        """Have an optimizer count the steps for its like, or one that stays beside both."""
        stays = next((there for one in self.others if len(one.reigns) > _TWICE and (there := one.reference())), None)
        if stays is None or stays is optimizer:
            self._reign += 1
            self._begin(optimizer)
            return
        self._inner = inner = self._shapes(optimizer)
        there = ((one, one.reference()) for one in self.others)
        self.others = [one for one, known in there if known is not None and self._shapes(known) != inner]
        self._begin(stays)

    def _begin(self, optimizer: Any) -> None:
        """Have an optimizer count the steps from now on."""
        self.first, self._most = optimizer, 0
        self.others = [one for one in self.others if one.reference() is not optimizer]
        self._rest()

    def _rest(self) -> None:
        self.between = 0
        for known in self.others:
            known.steps = 0

    def keep(self) -> None:
        """Hold on to those that are there at the end of a step; only `others` and `kept` ask for it."""
        self.others = [known for known in self.others if known.reference() is not None]
        self.kept = [known.reference() for known in self.others]

    def all(self) -> list[Any]:
        """Return those that are there."""
        others = (known.reference() for known in self.others)
        return [one for one in (self.first, *others) if one is not None]


def take_in(agent: Agent, training: Any, optimizer: Any, steps: bool = True) -> None:
    """Take an optimizer into a training: one that is about to step or, without `steps`, that a graph will step with.

    The training has its `optimizers`, and in `steps_by` how the record names the one that counts the steps.
    """
    optimizers = training.optimizers
    before = optimizers.first
    (optimizers.take if steps else optimizers.meet)(optimizer)
    kind = type(optimizers.first).__name__
    if before is None:
        training.steps_by = f"optimizer {kind}"
        agent.model.adopt(training)
    elif optimizers.first is not before:
        agent.record("note", text=f"from step {agent.clock.step} on another optimizer counts the steps: {kind}")
