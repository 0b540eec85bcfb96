"""Gradients that are clipped while a scaler of the loss has them scaled: the limit is then that of the scaled ones.

`GradScaler.scale` multiplies the loss, and so each gradient, by a factor of some ten thousand; `unscale_` divides the
gradients of an optimizer, and `step` does so where nobody has. A limit in the size of gradients as they are cuts scaled
ones down to next to nothing. A limit that is multiplied by the scale as well clips as is meant.
"""

from __future__ import annotations

from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose

WAITS_FOR = "torch"

#: A limit is one of gradients as they are if it is this many times smaller than the scale.
_SMALLER = 64


def install(agent: Agent) -> None:
    """Look at each norm that gradients are clipped by, until one is wrong, where a scaler is in use."""
    import torch

    scaler = getattr(torch.amp, "GradScaler", None)
    if scaler is None:
        return
    clips = _Clips(agent)
    interpose(scaler, "scale", clips.scale)
    interpose(scaler, "unscale_", clips.unscale)
    interpose(scaler, "step", clips.unscale)
    for module in (torch.nn.utils, torch.nn.utils.clip_grad):
        interpose(module, "clip_grad_norm_", clips.clip, clips.clipped)


class _Clips:
    """The scaler whose gradients nobody has divided yet, and whether a clip of such was told."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._scaler: Any = None
        self._told = False

    def scale(self, scaler: Any, *_: Any, **__: Any) -> None:
        """Take in the scaler of a loss."""
        self._scaler = scaler if scaler.is_enabled() else None

    def unscale(self, *_: Any, **__: Any) -> None:
        """Forget the scaler, which divides gradients."""
        self._scaler = None

    def clip(self, parameters: Any, max_norm: Any, *_: Any, **__: Any) -> Any:
        """Return the limit of a clip, if gradients are scaled."""
        return max_norm if self._scaler is not None and not self._told else None

    def clipped(self, limit: Any, norm: Any) -> None:
        """Look at the norm and the limit of a clip of scaled gradients."""
        if limit is not None:
            self._agent.guard(self._compare, limit, norm)

    def _compare(self, limit: Any, norm: Any) -> None:
        """Record a clip that has cut scaled gradients down to a limit of gradients as they are."""
        with self._agent.quietly():
            limit, scale, norm = float(limit), float(self._scaler.get_scale()), float(norm)
        if limit * _SMALLER <= scale and limit < norm < float("inf"):
            self._told = True
            site = self._agent.sites.here().line
            self._agent.record("scaled_clip", limit=limit, norm=norm, scale=scale, site=site)
