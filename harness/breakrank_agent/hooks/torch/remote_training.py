"""Training over `torch.distributed.rpc`: the backward pass and the optimizer reach to parameters of other ranks.

A `DistributedOptimizer` ends a step of the rank that calls it. Its parts, in the ranks that own the parameters, run as
TorchScript, and are not seen.
"""

from __future__ import annotations

import sys
from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks import after_import

WAITS_FOR = "torch"


def install(agent: Agent) -> None:
    """Wrap both, where they are imported."""
    after_import("torch.distributed.autograd", lambda: _watch_backward(agent))
    after_import("torch.distributed.optim.optimizer", lambda: _watch_optimizer(agent))


def _watch_backward(agent: Agent) -> None:
    module: Any = sys.modules["torch.distributed.autograd"]
    if not hasattr(module, "backward"):
        # A build without rpc.
        return

    def fail(_: Any, error: BaseException) -> None:
        if isinstance(error, Exception):
            agent.raised("backward", error)

    interpose(module, "backward", lambda *_, **__: agent.reach("backward"), failed=fail)


def _watch_optimizer(agent: Agent) -> None:
    module: Any = sys.modules["torch.distributed.optim.optimizer"]

    def enter(*_: Any, **__: Any) -> None:
        agent.reach("optimize")

    def leave(*_: Any) -> None:
        agent.close_step("optimizer DistributedOptimizer")

    interpose(module.DistributedOptimizer, "step", enter, leave)
