"""Gradients that an optimizer takes while a collective is at work on them: nobody has waited for the work it returned.

Python gets a work with `async_op=True`, and waits by it, by its future, or by asking whether it is complete. A
collective without a wait may be over by then, as the timing has it, so what counts is the wait. A future goes to code
that is not seen here. On a device the order of streams may take the place of a wait: only tensors on a CPU are looked
at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.agent.parameter_digest import in_parts
from breakrank_agent.hooks.torch.collective_contents import READS_WRITES
from breakrank_agent.hooks.torch.tensor_memory import extent, held_of
from breakrank_agent.hooks.torch.training import Training, flatten, parameters_of

WAITS_FOR = "torch"

#: The most works that are remembered: a program may never wait for what it sends.
_MOST = 4096


class _Reach(NamedTuple):
    """The memory of a tensor: a weak reference to its storage, and the bytes from which and up to which it reaches."""

    storage: Any
    start: int
    stop: int

    def meets(self, other: _Reach) -> bool:
        """Return whether two tensors have bytes in common: the memory of one that is gone may be another's by now."""
        same = self.storage.cdata == other.storage.cdata and not self.storage.expired()
        return same and max(self.start, other.start) < min(self.stop, other.stop)


def install(agent: Agent) -> None:
    """Look at what each optimizer is about to take, until it takes what is under way."""
    import torch

    if not torch.distributed.is_available() or agent.plan.digests == "none":
        return
    open_works = _Open(agent)
    agent.services.unawaited = open_works
    agent.on.optimize.append(open_works.look)
    work = torch.distributed.Work
    for name in ("wait", "get_future"):
        interpose(work, name, open_works.close)
    interpose(work, "is_completed", receiver, open_works.asked)


class _Started(NamedTuple):
    """A collective whose work was handed out: by the work's identity, what it writes to, and where it was called."""

    work: int
    op: str
    reaches: tuple[_Reach, ...]
    site: str


class _Open:
    """The works that nobody has waited for yet. None is kept alive, so that one which is gone is never waited for."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._started: list[_Started] = []

    def start(self, op: str, work: Any, names: list[str], args: Any) -> None:
        """Take down a collective that has begun, if Python has its work."""
        written = flatten(dict(zip(names, args)).get(READS_WRITES.get(op, ("", ""))[1]), [])
        reaches = _reaches(written)
        if reaches and work is not None:
            del self._started[:-_MOST]
            self._started.append(_Started(id(work), op, reaches, self._agent.sites.here().line))

    def close(self, work: Any, *_: Any, **__: Any) -> None:
        """Forget a work that is waited for: of those that had its identity, the last one."""
        for at in range(len(self._started) - 1, -1, -1):
            if self._started[at].work == id(work):
                del self._started[at]
                return

    def asked(self, work: Any, done: Any) -> None:
        """Forget a work that was found to be complete."""
        if done:
            self.close(work)

    def look(self, number: int, optimizer: Any) -> None:
        """Record the first gradient that an optimizer takes of what is under way, and look no more."""
        training = self._agent.model.handles
        if not self._started or not number or not isinstance(training, Training):
            return
        for parameter in parameters_of(optimizer):
            taken = _reaches([parameter.grad]) if parameter.grad is not None else ()
            for started in self._started:
                if any(one.meets(other) for one in taken for other in started.reaches):
                    self._agent.on.optimize.remove(self.look)
                    parts = in_parts(training.parameters())
                    part = next((at for at, held in enumerate(parts) if any(p is parameter for p in held)), 0)
                    self._agent.record("unawaited", op=started.op, site=started.site, part=part)
                    return
        self._started.clear()


def _reaches(tensors: list[Any]) -> tuple[_Reach, ...]:
    """Return the memory of tensors on a CPU."""
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef

    held = [one for tensor in tensors for one in held_of(tensor) if one.is_cpu and one.layout is torch.strided]
    return tuple(_Reach(StorageWeakRef(one.untyped_storage()), *extent(one)) for one in held)
