"""The loss of a step beside a digest of the batch that the model was handed, in the steps that are looked at.

Ranks that hold shards of one model and are handed one batch come to one loss. Only what is sure is told: one pass and
one loss in a step, and a loss that is over all samples of that batch, and not over a rank's part of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import prod
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.torch.loss_weights import reduced_shape
from breakrank_agent.hooks.torch.tensor_memory import feed, unseen

WAITS_FOR = "torch"

#: The last step that is looked at, and the levels of lists and mappings in which tensors are looked for.
_STEPS, _DEPTH = 8, 3


def install(agent: Agent) -> None:
    """Look at what outermost modules are handed, and at what each backward pass begins from."""
    if agent.plan.digests != "none":
        scored = _Scored(agent)
        agent.on.handed.append(scored.hand)
        agent.on.backward.append(scored.look)
        agent.on.step_end.append(scored.tell)


class _Scored:
    """The passes of a step."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._batches: list[tuple[str, tuple[int, ...]]] = []
        self._losses: list[Optional[tuple[float, tuple[int, ...]]]] = []

    def hand(self, args: Any, kwargs: Any) -> None:
        """Digest a batch, if it is one of a step that is looked at."""
        import torch

        if not self._looks() or not torch.is_grad_enabled():
            return
        tensors = list(_tensors((args, kwargs), _DEPTH))
        digest = hashlib.blake2b(digest_size=8)
        with self._agent.quietly(), torch.no_grad():
            for tensor in tensors:
                feed(digest, tensor)
        self._batches.append((digest.hexdigest(), _samples(tensors[0]) if tensors else ()))

    def look(self, roots: Any) -> None:
        """Take down a loss, and the shape of what is reduced to it."""
        if not self._looks():
            return
        loss = roots[0] if isinstance(roots, (list, tuple)) and len(roots) == 1 else roots
        # A mode of ours would be handed a number where torch keeps a tensor of it.
        with unseen():
            shape = None if self._agent.services.packs else reduced_shape(loss)
            self._losses.append(None if shape is None else (float(loss.detach()), shape))

    def tell(self) -> None:
        """Record the loss and the batch of a step that has one of each."""
        if self._agent.clock.done >= _STEPS:
            self._agent.on.handed.remove(self.hand)
            self._agent.on.backward.remove(self.look)
            self._agent.on.step_end.remove(self.tell)
        batches, self._batches = self._batches, []
        losses, self._losses = self._losses, []
        if len(batches) != 1 or len(losses) != 1 or losses[0] is None:
            return
        (batch, samples), (loss, shape) = batches[0], losses[0]
        if samples and loss - loss == 0 and _is_over(shape, samples):
            self._agent.record("scored", loss=loss, samples=[*map(int, samples)], batch=batch)

    def _looks(self) -> bool:
        if self._agent.clock.step > _STEPS or self._agent.over or not self._agent.digests_now():
            return False
        import torch

        distributed = torch.distributed
        return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    """Yield the tensors in nested lists and mappings."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _tensors(one, depth - 1)


def _samples(first: Any) -> tuple[int, ...]:
    """Return the sizes by which samples, or the tokens of several, are counted in the first tensor of a batch."""
    sequence = first.dim() == 3 or (first.dim() == 2 and not first.is_floating_point())
    return tuple(first.shape[:2]) if sequence else tuple(first.shape[:1])


def _is_over(shape: tuple[int, ...], samples: tuple[int, ...]) -> bool:
    """Return whether what is reduced has an element, or several, for each sample."""
    return all(size in shape for size in samples) or prod(samples) in shape
