"""Wrappers that a strike keeps from reducing gradients: what DistributedDataParallel does in one pass instead.

It is installed on a rank that is to be struck so, and on no other; after the hook `replicas`, which sees what comes of
it.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.model import NoHandles
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks.torch.collective_faults import counted

WAITS_FOR = "torch"


def install(agent: Agent) -> None:
    """Watch the forward pass of every DistributedDataParallel, and the backward pass after it."""
    import torch

    if torch.distributed.is_available() and agent.injector.strikes_on("wrapper"):
        _Wrappers(agent).watch()


class _Wrappers:
    """The wrappers of this rank, and the one of which a forward pass was struck, until the backward pass is over."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._struck: Optional[tuple[Any, list[int]]] = None

    def watch(self) -> None:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        forward = DistributedDataParallel.forward

        @functools.wraps(forward)
        def passing(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            # By hand: what is struck is another call than the original.
            try:
                return self._pass(forward, wrapper, args, kwargs)
            except BaseException as error:
                hide(error)
                raise

        DistributedDataParallel.forward = passing
        interpose(torch.autograd, "backward", self._begin_backward, self._end_backward)

    def _pass(self, forward: Callable[..., Any], wrapper: Any, args: Any, kwargs: Any) -> Any:
        """Do a forward pass as the strikes that are due will have it: the first that was to reduce is struck."""
        import torch

        reduces = torch.is_grad_enabled() and wrapper.require_backward_grad_sync
        strikes = self._agent.injector.take_strikes("wrapper") if reduces else []
        if not strikes:
            return forward(wrapper, *args, **kwargs)
        struck = _Struck()
        for _, strike in strikes:
            strike.fault.strike_inside(struck)
        self._struck = wrapper.process_group, [number for number, _ in strikes]
        return struck.go(forward, wrapper, args, kwargs)

    def _begin_backward(self, *_: Any, **__: Any) -> Optional[tuple[Any, list[int], Any]]:
        """Return the group of a struck forward pass, the numbers of the strikes, and torch's own count by then."""
        struck, self._struck = self._struck, None
        return None if struck is None else (*struck, counted(struck[0]))

    def _end_backward(self, struck: Optional[tuple[Any, list[int], Any]], _: Any) -> None:
        """After a struck forward pass, have torch's own count say that nothing was reduced."""
        group, numbers, before = struck or (None, [], None)
        for number in numbers:
            what = "the reduction of the gradients"
            counts = [before, counted(group)]
            self._agent.record("strike", strike=number, phase="seen", before=what, after="", counted=counts)


class _Struck(NoHandles):
    """One forward pass through a wrapper, as a fault gets it."""

    def __init__(self) -> None:
        self._unsynced = self._bypassed = False

    def wrapper(self) -> _Struck:
        """Return what can be done to the wrapper in this pass."""
        return self

    def leave_unsynced(self) -> None:
        """Have no gradient reduced in the backward pass."""
        self._unsynced = True

    def bypass(self) -> None:
        """Call the module inside in place of the wrapper."""
        self._bypassed = True

    def go(self, forward: Callable[..., Any], wrapper: Any, args: Any, kwargs: Any) -> Any:
        """Do the pass."""
        if self._bypassed:
            return wrapper.module(*args, **kwargs)
        if self._unsynced:
            with wrapper.no_sync():
                return forward(wrapper, *args, **kwargs)
        return forward(wrapper, *args, **kwargs)
