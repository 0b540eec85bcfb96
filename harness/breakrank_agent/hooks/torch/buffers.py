"""Buffers of a module, such as the running statistics of batch norm, as a forward pass finds them.

A wrapper may have brought them into line just before: they are looked at inside of it. Buffers that are as they
were when they were looked at first are no state.
"""

from __future__ import annotations

import hashlib
from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks.torch.tensor_memory import feed

WAITS_FOR = "torch"

#: The most elements of a buffer that is looked at, and the most buffers.
_LARGEST, _MOST = 1 << 16, 256


def install(agent: Agent) -> None:
    """Look at buffers in the steps that are digested, and at models that are averages of others."""
    import torch

    if agent.plan.digests == "none" or not torch.distributed.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.swa_utils import AveragedModel

    buffers = _Buffers(agent)

    def enter(module: Any) -> None:
        if not isinstance(module, DistributedDataParallel):
            buffers.look(module)

    def inside(wrapper: Any, *_: Any, **__: Any) -> None:
        agent.guard(buffers.look, wrapper.module)

    agent.on.forward.append(enter)
    if hasattr(DistributedDataParallel, "_run_ddp_forward"):
        interpose(DistributedDataParallel, "_run_ddp_forward", inside)
    averages = _Averages(agent)
    interpose(AveragedModel, "update_parameters", lambda model, *_: model, averages.look)


class _Buffers:
    """The buffers of the modules that were called."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        #: The digest of each buffer when it was looked at first, by its identity.
        self._first: dict[int, bytes] = {}
        self._told = (0, False)

    def look(self, module: Any) -> None:
        """Record a digest of the buffers that change, once for each mode in a step."""
        here = (self._agent.clock.step, bool(module.training))
        if self._agent.over or here == self._told or not self._agent.digests_now():
            return
        self._told = here
        digest = hashlib.blake2b(digest_size=8)
        moving = []
        with self._agent.quietly():
            for name, buffer in [*module.named_buffers()][:_MOST]:
                if buffer.numel() > _LARGEST or not buffer.is_floating_point():
                    continue
                # Batch norm changes its statistics without a new version of the tensor.
                own = hashlib.blake2b(digest_size=8)
                feed(own, buffer)
                if self._first.setdefault(id(buffer), own.digest()) != own.digest():
                    moving.append(name)
                    digest.update(own.digest())
        if moving:
            self._agent.record("buffers", train=here[1], first=moving[0], buffers=digest.hexdigest())


class _Averages:
    """The models of this rank that are averages of others."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._count = 0

    def look(self, model: Any, _: Any) -> None:
        """Record a digest of an average that was just brought up to date."""
        self._count += 1
        if not self._agent.over and self._agent.digests_now():
            self._agent.guard(self._tell, model)

    def _tell(self, model: Any) -> None:
        digest = hashlib.blake2b(digest_size=8)
        with self._agent.quietly():
            for parameter in model.parameters():
                feed(digest, parameter)
        self._agent.record("average", number=self._count, average=digest.hexdigest())
