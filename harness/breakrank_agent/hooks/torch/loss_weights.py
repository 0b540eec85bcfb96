"""The weight of one element in a loss: what the mean or the sum at the root of its graph is over, and what scales it.

Ranks whose gradients a wrapper averages have to give each sample the same weight; without a wrapper, weights are told
where contents are asked for, to be compared with another run's. Only what the graph says without doubt is told: a mean
or a sum, and numbers by which that is multiplied or divided.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.torch.tensor_memory import unseen
from breakrank_agent.hooks.torch.training import Training

WAITS_FOR = "torch"

#: The nodes between a loss and its mean that change nothing, and the most nodes that are looked at.
_THROUGH = ("NegBackward0", "ToCopyBackward0", "CloneBackward0", "AliasBackward0", "ViewBackward0", "SqueezeBackward0")
_MOST = 16
#: The numbers by which torch saves the reduction of a loss of its own.
_MEAN, _SUM = 1, 2


class _Weight(NamedTuple):
    """A factor, and the number of elements whose mean or sum it is multiplied with."""

    factor: float
    reduction: str
    elements: int


def install(agent: Agent) -> None:
    """Look at each loss from which a backward pass begins, in the steps that are looked at."""
    if agent.plan.digests == "none":
        return
    weights = _Weights(agent)
    agent.on.backward.append(weights.look)
    agent.on.step_end.append(weights.close)


class _Weights:
    """The weights that were told last, by the number of the backward pass in its step."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._told: dict[int, _Weight] = {}
        self._count = 0

    def close(self) -> None:
        """End a step."""
        self._count = 0

    def look(self, roots: Any) -> None:
        """Record the weight of a loss, if it is new."""
        self._count += 1
        loss = roots[0] if isinstance(roots, (list, tuple)) and len(roots) == 1 else roots
        agent = self._agent
        if agent.over or agent.services.packs or not agent.digests_now():
            return
        bare = not self._averages()
        if bare and "contents" not in agent.plan.evidence:
            return
        # A mode of ours would be handed a number where torch keeps a tensor of it.
        with unseen():
            weight = _weight_of(loss)
        if weight is not None and self._told.get(self._count) != weight:
            self._told[self._count] = weight
            self._agent.record("loss", backward=self._count, **weight._asdict(), **({"bare": True} if bare else {}))

    def _averages(self) -> bool:
        """Return whether a wrapper averages the gradients of a module in use, as it is made to and nothing else."""
        from torch.nn.parallel import DistributedDataParallel

        training = self._agent.model.handles
        modules = [known() for known in training.modules] if isinstance(training, Training) else []
        wrapped = [module for module in modules if isinstance(module, DistributedDataParallel)]
        return any(not getattr(module, "_comm_hooks", None) for module in wrapped)


def _weight_of(loss: Any) -> Optional[_Weight]:
    """Return the weight of an element of a loss; None if its graph does not say it."""
    found = _reduction_of(loss)
    return None if found is None else _reduced(*found)


def reduced_shape(loss: Any) -> Optional[tuple[int, ...]]:
    """Return the shape of what a loss is the mean or the sum of; None if its graph does not say it."""
    found = _reduction_of(loss)
    if found is None or _reduced(*found) is None:
        return None
    sizes = getattr(found[0], "_saved_self_sym_sizes", None)
    return tuple(map(int, found[0]._saved_target.shape if sizes is None else sizes))


def _reduction_of(loss: Any) -> Optional[tuple[Any, float]]:
    """Return the node in which a loss is reduced, and the number that it is multiplied with afterwards."""
    node, factor = getattr(loss, "grad_fn", None), 1.0
    for _ in range(_MOST):
        if node is None:
            return None
        name = node.name()
        after = [child for child, _ in node.next_functions if child is not None]
        if name in ("MulBackward0", "DivBackward0"):
            number = _number(node)
            if number is None or len(after) != 1 or not number:
                return None
            factor = factor * number if name == "MulBackward0" else factor / number
        elif name not in _THROUGH:
            return node, factor
        if len(after) != 1:
            return None
        node = after[0]
    return None


def _number(node: Any) -> Optional[float]:
    """Return the number by which a node multiplies or divides; None if it is not one that lies on the CPU."""
    for name in ("_saved_other", "_saved_self"):
        held = getattr(node, name, None)
        if held is not None:
            return float(held) if not held.dim() and held.is_cpu and not held.requires_grad else None
    return None


def _reduced(node: Any, factor: float) -> Optional[_Weight]:
    """Return the weight where a mean or a sum is reached."""
    name = node.name()
    if name in ("MeanBackward0", "SumBackward0"):
        sizes = getattr(node, "_saved_self_sym_sizes", None)
        if sizes is None:
            return None
        return _Weight(factor, "mean" if name.startswith("Mean") else "sum", prod(map(int, sizes)))
    reduction = getattr(node, "_saved_reduction", None)
    target = getattr(node, "_saved_target", None)
    if reduction not in (_MEAN, _SUM) or target is None:
        return None
    return _Weight(factor, "mean" if reduction == _MEAN else "sum", target.numel())
