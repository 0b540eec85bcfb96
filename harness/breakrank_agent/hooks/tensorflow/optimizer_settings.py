"""The learning rates of Keras's optimizers, as they are after each step that is looked at."""

from __future__ import annotations

from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.tensorflow.training import training_of
from breakrank_agent.hooks.tensorflow.variables import components, is_served

WAITS_FOR = "tensorflow"


def install(agent: Agent) -> None:
    """Look at the end of each step that is digested."""
    if agent.plan.digests != "none":
        agent.on.step_end.append(_Rates(agent).tell)


class _Rates:
    """The learning rates that were told last, by the optimizer's number."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._told: dict[int, str] = {}

    def tell(self) -> None:
        """Record the learning rates that have changed."""
        if not self._agent.samples_now():
            return
        for number, optimizer in enumerate(training_of(self._agent).optimizers.all(), 1):
            with self._agent.quietly():
                rate = _rate(optimizer)
            if rate and rate != self._told.get(number):
                self._told[number] = rate
                self._agent.record("settings", optimizer=number, param_group=0, values={"lr": rate})


def _rate(optimizer: Any) -> str:
    """Return the learning rate that an optimizer has now; empty for one that has none that can be read."""
    try:
        rate = optimizer._get_current_learning_rate()
        # One of Keras has one of TensorFlow's, which may have a component on each device; a schedule has neither.
        here = components(rate._value)[0] if hasattr(rate, "_value") else rate
        return "" if is_served(here) else str(float(here.numpy()))
    except Exception:
        # Optimizers of the user's own need not have one, and what a schedule of theirs raises is not for us.
        return ""
