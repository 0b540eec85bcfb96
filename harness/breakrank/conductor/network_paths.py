"""Find the ways between ranks on which nothing can arrive any more, from outside, by probes.

The log of a rank cannot tell a slow link from a dead one. The kernel lists the bytes that are sent and not confirmed;
datagrams of ours try whether anything gets through at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping

from breakrank.conductor.rank import Rank
from breakrank.host.datagrams import Probes, Way, both_ways
from breakrank.host.places import undelivered
from breakrank_agent.kernel.sockets import RESENDS, as_listed

#: The most closed ways that are named one by one.
_TOLD = 4


class Ways:
    """Several looks at what is on its way between ranks, one after the other."""

    #: The looks in a row, with a datagram each way each time, that must find a way closed: if a kernel refuses to send,
    #: and if a datagram just does not arrive, which it might do late.
    LOOKS, LOOKS_UNSEEN = 8, 75

    def __init__(self) -> None:
        self._busy: set[Way] = set()
        self._probes: Probes | None = None
        self._looks = 0

    def forget(self) -> None:
        """Forget all looks: a rank has moved."""
        self._busy, self._probes, self._looks = set(), None, 0

    def closed(self, ranks: Mapping[int, Rank], waiting: Collection[int], meet: bool = False) -> set[Way] | None:
        """Look once more; return the closed ways that keep the bytes of `waiting` ranks from ever arriving.

        None says that something may still arrive, or that it is not known yet. If nothing is on its way, the set is
        empty. Ranks that `meet` poll their store: of these, only the ones count that cannot connect to it.
        """
        walls = {n: r.process.walls for n, r in ranks.items() if r.process.walls is not None}
        at = {as_listed(one.address): n for n, one in walls.items()}
        pids = {n: ranks[n].process.pid for n in waiting}
        left = undelivered(pids.values())
        found = [(n, at.get(e.link.remote.host, -1), e) for n, pid in pids.items() for e in left[pid]]
        entries = [(n, to, e) for n, to, e in found if n != to and not (meet and e.state != "SYN_SENT")]
        busy = {(source, target) for source, target, _ in entries}
        # Bytes that a peer has no room for arrive when it reads, which is not the network's affair.
        quiet = None if any(entry.timer == RESENDS for _, _, entry in entries) else set[Way]()
        if not busy or any(source not in walls or target not in walls for source, target in busy):
            return quiet
        if self._probes is None or busy != self._busy:
            self._busy, self._probes, self._looks = busy, Probes(walls), 0
        shut = self._probe(self._probes)
        # Bytes that are never confirmed are sent for ever, so one closed way of the two is enough.
        blocked = [way for way in busy if way in shut or way[::-1] in shut]
        if not blocked:
            return quiet
        refused = {way for way, count in self._probes.refused.items() if count >= self._looks}
        needed = self.LOOKS if all(way in refused or way[::-1] in refused for way in blocked) else self.LOOKS_UNSEEN
        return shut if len(blocked) == len(busy) and self._looks > needed else None

    def _probe(self, probes: Probes) -> set[Way]:
        """Send once more, from all to all that wait for something; return the ways on which nothing has arrived."""
        probed = set(both_ways({rank for way in self._busy for rank in way}, probes.walls))
        with contextlib.suppress(OSError):
            arrived = set(probes.hear())
            probes.send(probed, 1)
            self._looks += 1
            return probed - arrived
        return set()


def can_probe(ranks: Mapping[int, Rank]) -> bool:
    """Return whether the ways between any two ranks can be probed: there are walls around them."""
    return sum(r.process.walls is not None for r in ranks.values()) > 1


def explain_closed(closed: Collection[Way]) -> tuple[tuple[int, ...], str]:
    """Return the one rank that is at an end of every closed way, if several pairs are apart, and the proof in words."""
    pairs = {frozenset(way) for way in closed}
    common = frozenset.intersection(*pairs) if len(pairs) > 1 else frozenset[int]()
    if len(common) == 1 and len(closed) == 2 * len(pairs):
        return tuple(common), f"nothing gets to rank {min(common)}, nor from it"
    said = [f"at rank {target} from rank {source}" for source, target in sorted(closed)]
    more = f", nor on {len(said) - _TOLD} other ways" if len(said) > _TOLD else ""
    return tuple(common), f"nothing arrives {', nor '.join(said[:_TOLD])}{more}"
