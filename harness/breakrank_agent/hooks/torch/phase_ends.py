"""The ends of forward and backward passes, where the plan asks for them: a picture draws how long each lasted.

A forward pass is over as its outermost module returns, and a backward pass as the call of autograd does.
"""

from __future__ import annotations

from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose

WAITS_FOR = "torch"
#: Of a backward pass, all that is done as it ends lies before its end.
AFTER = ("torch.training",)


def install(agent: Agent) -> None:
    """Record each end."""
    if "phases" not in agent.plan.evidence:
        return

    import torch

    def passed(point: str) -> None:
        if not agent.over and agent.here and not agent.busy:
            agent.record("passed", point=point)

    def derived(*_: Any) -> None:
        passed("backward")

    agent.on.forwarded.append(lambda: passed("forward"))
    interpose(torch.autograd, "backward", after=derived)
