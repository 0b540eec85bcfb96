"""Spectral norms that are used before anything has fitted them: a validation before the first step of a training.

`torch.nn.utils.spectral_norm` divides a weight by an estimate u·Wv of its largest singular value. The vectors begin at
random, and each pass in train mode brings them nearer: v = Wᵀu and u = Wv, each divided by its length. A pass in eval
mode takes them as they are. Newer parametrizations are fitted when they are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.parameter_digest import NAME_LIMIT
from breakrank_agent.hooks.torch.tensor_memory import held_of

WAITS_FOR = "torch"

#: The least cosine between u and Wv of a norm that was fitted: it is 1 as long as the weight stays as it is.
_FITTED = 0.9
#: The largest singular value from which on a norm is far from what it says, and the rounds in which it is estimated.
_LARGE, _ROUNDS = 1.5, 20
#: The passes that are looked at.
_PASSES = 4


def install(agent: Agent) -> None:
    """Look at the first passes in eval mode before the first step."""
    left = [None] * _PASSES

    def look(module: Any) -> None:
        if not left:
            return
        left.pop()
        with agent.quietly():
            found = next(_unfitted(module), None)
        if found is not None:
            left.clear()
            name, ratio = found
            agent.record("spectral", name=name[:NAME_LIMIT], ratio=ratio, site=agent.sites.here().line)

    def end() -> None:
        agent.on.evaluated.remove(look)
        agent.on.step_end.remove(end)

    agent.on.evaluated.append(look)
    agent.on.step_end.append(end)


def _unfitted(module: Any) -> Iterator[tuple[str, float]]:
    """Yield the name of each weight whose norm nothing has fitted, and its largest singular value with that norm."""
    import torch
    from torch.nn.utils.spectral_norm import SpectralNorm

    for path, inner in module.named_modules():
        for hook in inner._forward_pre_hooks.values():
            if not isinstance(hook, SpectralNorm) or not hook.n_power_iterations:
                continue
            weight, u, v = (getattr(inner, f"{hook.name}_{part}", None) for part in ("orig", "u", "v"))
            if weight is None or u is None or v is None or not held_of(weight):
                continue
            with torch.no_grad():
                matrix = hook.reshape_weight_to_matrix(weight).double()
                image, u = matrix @ v.double(), u.double()
                estimate = abs(float(u @ image))
                if estimate >= _FITTED * float(image.norm() * u.norm()):
                    continue
                largest = _largest(matrix, image)
            if largest > _LARGE * estimate > 0:
                yield f"{path}.{hook.name}".lstrip("."), largest / estimate


def _largest(matrix: Any, vector: Any) -> float:
    """Return a lower bound of a matrix's largest singular value: how much longer it makes a vector of its image."""
    for _ in range(_ROUNDS):
        vector = matrix @ (matrix.t() @ vector)
        vector = vector / vector.norm().clamp_min(1e-300)
    return float((matrix.t() @ vector).norm())
