"""Witnesses of the network: the kernels' lists of connections, and datagrams that try the ways."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from breakrank.host.datagrams import COUNT, Probes, Way, both_ways, fastest
from breakrank.host.name_lookup import look_up
from breakrank.witnesses import Evidence, Witness
from breakrank_agent.kernel.sockets import Link, connected, established, listed
from breakrank_agent.protocol.fault import Closes, Fault
from breakrank_agent.protocol.target import Target

#: Bytes of a datagram that fills a packet.
_PACKET = 1400
#: The number of datagrams that try the way out.
_MANY = 48


class Links(NamedTuple):
    """The established connections between a rank and its peer, and the states of all that the peer's kernel lists."""

    links: frozenset[Link]
    states: Mapping[Link, str]

    def __bool__(self) -> bool:
        return bool(self.links)

    def at_peer(self, links: Iterable[Link]) -> set[str]:
        """Return the states of links as their peer has them."""
        return {self.states.get(one, "gone") for one in links}

    def at_rank(self, links: Iterable[Link]) -> set[str]:
        """Return the states of links as the rank has them, from the other end."""
        return self.at_peer(Link(one.remote, one.local) for one in links)


class LinkLost(Witness[Links]):
    """The peer's kernel lists none of the connections as established any more, and it was not the peer that closed."""

    def look(self, fault: Fault, target: Target) -> Links | None:
        """Look at the connections from the peer's side; None if there is no such peer."""
        peer = target.peers.get(getattr(fault, "peer", target.rank))
        if peer is None:
            return None
        links = frozenset(established(peer, target.pid, but=target.store))
        # A peer that has ended since lists nothing; where both ranks are in one network, so does the rank for it.
        return Links(links, {e.link: e.state for pid in (target.pid, peer) for e in listed(pid)})

    def judge(self, fault: Fault, evidence: Evidence[Links]) -> str | None:
        """Compare the states that the connections had before with those that they have now."""
        before, after = evidence.before, evidence.after
        if not before or after is None:
            return None
        theirs, ours = after.at_peer(before.links), after.at_rank(before.links)
        if theirs & {"ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT"}:
            return None
        at_peer, at_rank = (", ".join(sorted(states)).lower() for states in (theirs, ours))
        return f"the kernel: {len(before.links)} established before, now {at_peer} at the peer, {at_rank} at the rank"


class StoreLost(Witness[Links]):
    """The kernel lists none of the rank's connections to the store as established any more, seen from either end."""

    def look(self, fault: Fault, target: Target) -> Links:
        """Look at these connections, in the kernel's list of the rank's network."""
        return Links(frozenset(connected(target.pid, target.store)), {e.link: e.state for e in listed(target.pid)})

    def judge(self, fault: Fault, evidence: Evidence[Links]) -> str | None:
        """Compare the states that the connections had before with those that they have now."""
        before, after = evidence.before, evidence.after
        if not before or after is None:
            return None
        states = after.at_peer(before.links) | after.at_rank(before.links)
        if "ESTABLISHED" in states:
            return None
        said = ", ".join(sorted(states)).lower()
        return f"the kernel: {len(before.links)} established to the store before, now {said}"


class Ways(NamedTuple):
    """The datagrams that were sent each way between the ranks' networks, and those that arrived, by way."""

    rank: int
    sent: int
    arrived: Mapping[Way, int]


def _probe(target: Target, ways: Iterable[Way], count: int, size: int = 0) -> Ways | None:
    ways = sorted(set(ways))
    if not ways:
        return None
    try:
        return Ways(target.rank, count, Probes(target.around).take(ways, count, size))
    except OSError:
        return None


def _sound_all(fault: Fault, target: Target) -> Ways | None:
    """Sound every way between two ranks; None where they have no networks of their own."""
    return _probe(target, both_ways(target.around, target.around), getattr(fault, "cycle", COUNT))


def _closed(fault: Fault, before: Ways | None, after: Ways | None) -> str | None:
    """Return the ways that the fault closes, in words, if none arrives on these, and all on the others."""
    if before is None or after is None or set(before.arrived.values()) != {before.sent}:
        return None
    ranks = {rank for way in after.arrived for rank in way}
    closed = fault.closes(after.rank, ranks) if isinstance(fault, Closes) else set()
    if not closed or any(count != (0 if way in closed else after.sent) for way, count in after.arrived.items()):
        return None
    said = ", ".join(f"at rank {target} from rank {source}" for source, target in sorted(closed))
    return f"{after.sent} datagrams each way: none arrives {said}"


class ClosedWays(Witness[Ways]):
    """Of datagrams that all arrived before, none arrives on the ways that the fault closes, and all on the others."""

    def look(self, fault: Fault, target: Target) -> Ways | None:
        """Sound every way between two ranks."""
        return _sound_all(fault, target)

    def judge(self, fault: Fault, evidence: Evidence[Ways]) -> str | None:
        """Compare the ways that are closed with those that the fault closes."""
        return _closed(fault, evidence.before, evidence.after)


class LossyWays(Witness[Ways]):
    """Of datagrams that all arrived before, some are lost between the rank and each peer, both ways, and some not."""

    def look(self, fault: Fault, target: Target) -> Ways | None:
        """Sound every way between two ranks."""
        return _sound_all(fault, target)

    def judge(self, fault: Fault, evidence: Evidence[Ways]) -> str | None:
        """Count the datagrams on the rank's own ways."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or set(before.arrived.values()) != {before.sent}:
            return None
        own = {way: count for way, count in after.arrived.items() if after.rank in way}
        if not own or not all(0 < count < after.sent for count in own.values()):
            return None
        least, most = min(own.values()), max(own.values())
        return f"of {after.sent} datagrams each way, {least if least == most else f'{least} to {most}'} arrive"


class Connected(NamedTuple):
    """The engine's word on whether the rank's container is on its network, and the datagrams that get through."""

    connected: bool
    ways: Ways | None


class Disconnected(Witness[Connected]):
    """The engine says that the container is on its network no more, and nothing gets to its rank, nor from it."""

    def look(self, fault: Fault, target: Target) -> Connected | None:
        """Ask the engine, and sound the ways between the ranks; None where it does not answer."""
        with contextlib.suppress(OSError):
            return Connected(target.walls.is_connected(), _sound_all(fault, target))
        return None

    def judge(self, fault: Fault, evidence: Evidence[Connected]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or not before.connected or after.connected:
            return None
        closed = _closed(fault, before.ways, after.ways)
        return None if closed is None else f"the engine: the container is on no network; {closed}"


def _way_out(target: Target) -> Way | None:
    """Return the way from the rank to its first peer."""
    peer = next((rank for rank in sorted(target.around) if rank != target.rank), None)
    return None if peer is None else (target.rank, peer)


class Delayed(Witness[float]):
    """A datagram takes as long as the fault says, and took less before."""

    def look(self, fault: Fault, target: Target) -> float | None:
        """Return the seconds that a datagram takes from the rank to its first peer, at best; None if none arrives."""
        way = _way_out(target)
        with contextlib.suppress(OSError):
            return None if way is None else fastest(target.around, way)
        return None

    def judge(self, fault: Fault, evidence: Evidence[float]) -> str | None:
        """Compare the two times with the delay of the fault."""
        before, after = evidence.before, evidence.after
        least = (getattr(fault, "ms", 0.0) - getattr(fault, "jitter_ms", 0.0)) / 1000
        if before is None or after is None or not before < least <= after:
            return None
        return f"a datagram from the rank took {before * 1000:.1f} ms before, and {after * 1000:.1f} ms now"


class Arrivals(NamedTuple):
    """The datagrams from the rank that arrived at its first peer.

    Its kernel has found so many `damaged` in all, and so many `earlier`, before these were sent.
    """

    arrived: int
    damaged: int
    earlier: int


class _OfArrivals(Witness[Arrivals], abstract=True):
    """A witness that counts the datagrams from the rank that arrive at its first peer."""

    def look(self, fault: Fault, target: Target) -> Arrivals | None:
        """Send datagrams, count those that arrive, and ask the peer's kernel."""
        way = _way_out(target)
        if way is None or way[1] not in target.peers:
            return None
        peer = target.peers[way[1]]
        earlier = _bad_checksums(peer)
        probed = _probe(target, [way], _MANY, 64)
        return None if probed is None else Arrivals(probed.arrived[way], _bad_checksums(peer), earlier)


def _bad_checksums(pid: int) -> int:
    """Return how many datagrams were damaged when they came into the network of a process (proc(5), net/snmp)."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/net/snmp").read_text().splitlines()
        names, values = (line.split() for line in lines if line.startswith("Udp:"))
        return int(values[names.index("InCsumErrors")])
    return 0


class Duplicated(_OfArrivals):
    """More datagrams arrive than were sent."""

    def judge(self, fault: Fault, evidence: Evidence[Arrivals]) -> str | None:
        """Compare the two counts with the number sent."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or before.arrived != _MANY or after.arrived <= _MANY:
            return None
        return f"of {_MANY} datagrams from the rank {after.arrived} arrive"


class Damaged(_OfArrivals):
    """The peer's kernel counts more datagrams with a wrong checksum, and none was damaged of those sent before.

    A network that outlasts a run, as a container's does, may have counted some in an earlier run.
    """

    def judge(self, fault: Fault, evidence: Evidence[Arrivals]) -> str | None:
        """Compare the kernel's counts."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or before.damaged > before.earlier or after.damaged <= before.damaged:
            return None
        return f"the peer's kernel: {after.damaged - before.damaged} datagrams with a wrong checksum"


class Known(NamedTuple):
    """A peer's host as it is known where the rank is: its name, and its address, empty if it is not known."""

    name: str
    address: str


class NamesLost(Witness[Known]):
    """A name that was known before is known no longer."""

    def look(self, fault: Fault, target: Target) -> Known | None:
        """Look for the first peer's host in the rank's network, as the rank's own files say."""
        way = _way_out(target)
        if way is None:
            return None
        name = target.walls_of(way[1]).host
        with contextlib.suppress(OSError), target.seen() as files:
            return Known(name, look_up(target.walls, files.root, name))
        return Known(name, "")

    def judge(self, fault: Fault, evidence: Evidence[Known]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or not before.address or after.address:
            return None
        return f"the resolver: {before.name} was {before.address}, and is not known any more"


class Listening(NamedTuple):
    """The number of sockets that listen on a port of a rank's host, as its kernel lists them."""

    port: int
    sockets: int


class PortTaken(Witness[Listening]):
    """A socket listens on the port now, and none did before."""

    def look(self, fault: Fault, target: Target) -> Listening:
        """Look in the kernel's list of the rank's network."""
        port = getattr(fault, "port", 0) or target.store
        there = [e for e in listed(target.pid) if e.state == "LISTEN" and e.link.local.port == port]
        return Listening(port, len(there))

    def judge(self, fault: Fault, evidence: Evidence[Listening]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or before.sockets or not after.sockets:
            return None
        return f"the kernel: port {after.port} of the rank's host is listened on, and was not"


class HeldBack(Witness[int]):
    """The kernel counts packets of the rank that it held back for lack of bandwidth, and counted none before."""

    def look(self, fault: Fault, target: Target) -> int | None:
        """Send more than a burst to a peer, and ask the kernel how often it was held back."""
        way = _way_out(target)
        if way is None:
            return None
        try:
            Probes(target.around).send([way], 2 * getattr(fault, "burst", 0) // _PACKET + 1, _PACKET)
            queues = json.loads(target.walls.run("tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))
        except OSError:
            return None
        return sum(int(queue.get("overlimits", 0)) for queue in queues)

    def judge(self, fault: Fault, evidence: Evidence[int]) -> str | None:
        """Compare the two counts."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or before or not after:
            return None
        return f"the kernel: {after} times something was held back at the rank's end"
