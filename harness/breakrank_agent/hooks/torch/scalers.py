"""Scalers of the loss, for gradients in half precision: their use, and the steps that they skip for an overflow."""

from __future__ import annotations

from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose

WAITS_FOR = "torch"

#: The method of a scaler that makes the step of an optimizer, or skips it.
_STEPS_OR_NOT = "_maybe_opt_step"


def install(agent: Agent) -> None:
    """See each step that a scaler is asked for."""
    import torch

    scaler = getattr(torch.amp, "GradScaler", None)
    if hasattr(scaler, _STEPS_OR_NOT):
        calls = _Calls(agent)
        interpose(scaler, _STEPS_OR_NOT, calls.begin, calls.end)
        interpose(scaler, "step", calls.meet)


class _Calls:
    """The call of a scaler that goes on: it steps an optimizer if the gradients are finite."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._stepped, self._met = agent, False, False

    def meet(self, *_: Any, **__: Any) -> None:
        """Record the first step that any scaler is asked for."""
        if not self._met:
            self._met = True
            # Without a scaler, no step needs to be noted.
            self._agent.on.optimize.append(self.note)
            self._agent.record("scaler")

    def begin(self, *_: Any, **__: Any) -> None:
        """Expect a step."""
        self._stepped = False

    def note(self, number: int, optimizer: Any) -> None:
        """Note the step of an optimizer."""
        self._stepped = True

    def end(self, token: None, result: Any) -> None:
        """Record that no step was made."""
        if not self._stepped:
            self._agent.record("overflow", site=self._agent.sites.here().line)
