"""Tensors that graphs save, where the program packs them: a checkpoint of activations computes them again to unpack."""

from __future__ import annotations

from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose

WAITS_FOR = "torch"


def install(agent: Agent) -> None:
    """Take note of the first context in which saved tensors are packed."""
    import torch

    def packs(*_: Any) -> None:
        agent.services.packs = True

    interpose(torch.autograd.graph.saved_tensors_hooks, "__enter__", packs)
