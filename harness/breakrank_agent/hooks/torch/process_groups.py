"""Process groups as the record has them: a name, the global ranks, the backend, and how many calls there were."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent


class Group:
    """A process group as the record has it: its name, the global ranks, and how many calls there were."""

    def __init__(self, group: Any, name: str) -> None:
        import torch.distributed as dist

        try:
            self.ranks = [int(rank) for rank in dist.get_process_group_ranks(group)]
        except (KeyError, RuntimeError, ValueError):
            self.ranks = list(range(group.size()))
        self.group = weakref.ref(group)
        self.name = name
        self.size: int = group.size()
        self.rank: int = group.rank()
        self.calls = itertools.count(1)
        self.messages: dict[tuple[int, int], itertools.count[int]] = {}

    def numbers(self, pair: Optional[tuple[int, int]]) -> Iterator[int]:
        """Return what numbers the collectives in the group, or the messages between two of its ranks."""
        return self.calls if pair is None else self.messages.setdefault(pair, itertools.count(1))

    def in_world(self, rank: int) -> int:
        """Return the global rank of a rank of the group; -1 stays what it is."""
        return self.ranks[rank] if 0 <= rank < len(self.ranks) else rank


class Groups:
    """The groups that have had a call. One that is made anew under an old name is another one: `0`, then `0#2`."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        #: By the identity of the object, which is cheaper to ask for than the name.
        self.known: dict[int, Group] = {}
        self._times: dict[str, int] = {}

    def meet(self, group: Any) -> Group:
        """Record a group at its first call, and return what is known of it."""
        name = group.group_name
        times = self._times[name] = self._times.get(name, 0) + 1
        made = self.known[id(group)] = Group(group, name if times == 1 else f"{name}#{times}")
        if self._agent.here:
            facts = {"backend": _backend(group), "timeout_s": _timeout(group)}
            self._agent.record("group", group=made.name, ranks=made.ranks, **facts)
        return made


def _backend(group: Any) -> str:
    """Return the name of the group's backend, where it says so."""
    try:
        return str(group._get_backend_name()) if hasattr(group, "_get_backend_name") else str(group.name())
    except RuntimeError:
        return ""


def _timeout(group: Any) -> Optional[float]:
    """Return the seconds after which the group's backend gives a wait up, where it says so."""
    try:
        backend = group._get_backend(group._device_types[0])
        return float(backend.options._timeout.total_seconds())
    except (AttributeError, IndexError, RuntimeError):
        return None
