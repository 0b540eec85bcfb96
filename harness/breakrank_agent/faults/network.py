"""Faults of the network: a link between two ranks is cut, closed one way or slow, or loses packets.

The first two strike any rank; all others change the network of a rank that has one of its own.
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from breakrank_agent.faults._isolated import DEVICE, Filtered, Isolated, Relayed, add_rules, remove_rules
from breakrank_agent.kernel.pidfd import duplicate
from breakrank_agent.kernel.sockets import as_listed, connected, established, listed
from breakrank_agent.protocol.fault import Fault, Way
from breakrank_agent.protocol.target import Target
from breakrank_agent.protocol.trigger import PlanError

#: Milliseconds that a delay stays below.
_LATEST_MS = 1000
#: The packets in a row among which the lost ones are drawn.
CYCLE = 64


@dataclass(frozen=True)
class DropLink(
    Fault,
    side="outside",
    needs=("ptrace", "pidfd"),
    witness="link_lost",
    certifies="lost TCP connections of which both ends hear; says nothing about lost packets or RDMA",
):
    """Every connection of the process group between the rank and `peer` is cut, in both directions.

    The job's store keeps its connections. `lasting`: for good, so that new connections are cut, too, whenever the rank
    comes to the point of the strike again, in this attempt and later ones.
    """

    peer: int = 0
    lasting: bool = False

    def lasts(self) -> bool:
        """Return whether the link is cut for good."""
        return self.lasting

    def strike(self, target: Target) -> None:
        """Shut the rank's own sockets down, through duplicates of them. Raises `OSError` if there are none."""
        peer = target.peers.get(self.peer)
        links = established(target.pid, peer, but=target.store) if peer is not None else {}
        if not links:
            raise ConnectionError(f"there is no connection between rank {target.rank} and rank {self.peer}")
        _cut(target.pid, links.values())


@dataclass(frozen=True)
class LoseStore(
    Fault,
    side="outside",
    needs=("ptrace", "pidfd"),
    witness="store_lost",
    certifies="lost connections to a TCPStore that can be made anew; says nothing about a store's end",
):
    """The rank's connections to the job's rendezvous store are cut, in both directions; the store lives on."""

    def strike(self, target: Target) -> None:
        """Shut the rank's own sockets down, through duplicates of them. Raises `OSError` if there are none."""
        links = connected(target.pid, target.store) if target.store else {}
        if not links:
            raise ConnectionError(f"there is no connection between rank {target.rank} and the store")
        _cut(target.pid, links.values())


@dataclass(frozen=True)
class CutLink(
    Isolated,
    witness="closed_ways",
    certifies="a network card or cable that is dead; says nothing about RDMA, nor a lost host",
):
    """The rank's link is down: nothing gets to it or from it, and no connection is told."""

    def closes(self, rank: int, ranks: Collection[int]) -> set[Way]:
        """Return the ways on which nothing arrives any more, for a strike on `rank`."""
        return _between({rank}, set(ranks) - {rank})

    def strike(self, target: Target) -> None:
        """Set the rank's end down."""
        target.walls.run("ip", "link", "set", DEVICE, "down")

    def heal(self, target: Target) -> None:
        """Set it up again."""
        target.walls.run("ip", "link", "set", DEVICE, "up")


@dataclass(frozen=True)
class DisconnectContainer(
    CutLink,
    contained=True,
    needs=("docker", "netns"),
    witness="disconnected",
    certifies="what `docker network disconnect` does; says nothing of a cable or card, nor of others",
):
    """The rank's container is taken off its network by the engine: its interface is gone, and with it its address."""

    def strike(self, target: Target) -> None:
        """Have the engine do it."""
        target.walls.disconnect()

    def heal(self, target: Target) -> None:
        """Have the engine connect it."""
        target.walls.connect()


@dataclass(frozen=True)
class Partition(
    Isolated,
    needs=("netns", "nft"),
    witness="closed_ways",
    certifies="a network in two halves that silently drops what passes between; links stay up",
):
    """The ranks from `first` on and those before it no longer reach each other: their packets are dropped.

    It comes at once, on all ranks, when the rank of the strike is at its point.
    """

    first: int = 1

    def closes(self, rank: int, ranks: Collection[int]) -> set[Way]:
        """Return the ways on which nothing arrives any more, for a strike on `rank`."""
        far = {one for one in ranks if one >= self.first}
        return _between(far, set(ranks) - far)

    def strike(self, target: Target) -> None:
        """Have every rank of the one half drop packets from and for the other. Raises `OSError` if a half is empty."""
        far = [rank for rank in target.around if rank >= self.first]
        near = ", ".join(walls.address for rank, walls in target.around.items() if rank < self.first)
        if not far or not near:
            raise OSError(f"no rank is on the {'near' if far else 'far'} side of rank {self.first}")
        for rank in far:
            add_rules(target, rank, f"ip saddr {{ {near} }} drop", f"ip daddr {{ {near} }} drop")

    def heal(self, target: Target) -> None:
        """Take the rules away."""
        for rank in sorted(target.around):
            if rank >= self.first:
                remove_rules(target, rank)


@dataclass(frozen=True)
class OneWayLink(
    Filtered,
    witness="closed_ways",
    certifies="packets dropped in one direction, confirmations of TCP among them; links stay up",
):
    """Packets of `peer` no longer reach the rank, while those of the rank still arrive."""

    peer: int = 0

    def closes(self, rank: int, ranks: Collection[int]) -> set[Way]:
        """Return the way on which nothing arrives any more, for a strike on `rank`."""
        return {(self.peer, rank)}

    def strike(self, target: Target) -> None:
        """Have the rank drop the packets of the peer."""
        add_rules(target, target.rank, input=f"ip saddr {target.walls_of(self.peer).address} drop")


@dataclass(frozen=True)
class ResetConnections(
    Isolated,
    witness="link_lost",
    certifies="connections that a firewall or switch gives up; both ends hear of it",
):
    """The connections of the process group between the rank and `peer` are reset, once; new ones can be made."""

    peer: int = 0

    def strike(self, target: Target) -> None:
        """Have the rank's kernel abort them, which sends the peer a reset. Raises `OSError` if there are none."""
        peer = target.peers.get(self.peer)
        if peer is None or not established(target.pid, peer, but=target.store):
            raise ConnectionError(f"there is no connection between rank {target.rank} and rank {self.peer}")
        others = f"( sport != :{target.store} and dport != :{target.store} )"
        target.walls.run("ss", "--kill", "--tcp", f"dst {target.walls_of(self.peer).address} and {others}")


@dataclass(frozen=True)
class FlapLink(
    CutLink,
    certifies="a link that comes back while TCP still tries; says nothing about one that stays down",
):
    """The rank's link is down and up again, `times` times: each time down until somebody has sent in vain.

    It goes down again once all that was sent has arrived.
    """

    times: int = 2

    def strike(self, target: Target) -> None:
        """Set the rank's end down."""
        super().strike(target)
        target.kept.update(down=True, left=self.times - 1)

    def goes_on(self, target: Target) -> bool:
        """Set it up when somebody has sent in vain, and down again when everything has arrived."""
        sent_in_vain = _tries_in_vain(target)
        if target.kept["down"] and sent_in_vain:
            self.heal(target)
            target.kept["down"] = False
        elif not target.kept["down"] and target.kept["left"] and not sent_in_vain:
            super().strike(target)
            target.kept.update(down=True, left=target.kept["left"] - 1)
        return bool(target.kept["down"] or target.kept["left"])


@dataclass(frozen=True)
class LosePackets(
    Filtered,
    witness="lossy_ways",
    certifies="lost packets of any protocol, which TCP sends again; says nothing about RDMA",
):
    """Some packets to and from the rank are lost: each `every`-th, or a `share` of them that is drawn from `seed`.

    Packets are counted in each direction, over and over, to find the lost ones. Raises `PlanError` for a share
    that leaves none or all.
    """

    every: int = 0
    share: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.every and not 1 <= round(self.share * CYCLE) < CYCLE:
            raise PlanError(f"a share of {self.share} loses no packet or all of them; use one from 0.01 to 0.99")

    @property
    def cycle(self) -> int:
        """The number of packets after which the count begins anew."""
        return self.every or CYCLE

    @property
    def lost(self) -> tuple[int, ...]:
        """The places in a cycle whose packets are lost."""
        if self.every:
            return (self.every - 1,)
        return tuple(sorted(random.Random(self.seed).sample(range(CYCLE), round(self.share * CYCLE))))

    def strike(self, target: Target) -> None:
        """Have the rank's kernel count packets, and drop these."""
        drop = f"numgen inc mod {self.cycle} {{ {', '.join(map(str, self.lost))} }} drop"
        add_rules(target, target.rank, f"iifname {DEVICE} {drop}", f"oifname {DEVICE} {drop}")


@dataclass(frozen=True)
class LimitBandwidth(
    Isolated,
    needs=("netns", "tbf"),
    witness="held_back",
    certifies="a slow way out of one host; says nothing about a slow way in",
):
    """The rank sends at `kbit` thousand bits a second, after the first `burst` bytes; nothing is lost."""

    kbit: int = 1000
    burst: int = 16384

    def strike(self, target: Target) -> None:
        """Put a token bucket at the rank's end."""
        rate = ("rate", f"{self.kbit}kbit", "burst", str(self.burst), "limit", "64mb")
        target.walls.run("tc", "qdisc", "add", "dev", DEVICE, "root", "tbf", *rate)

    def heal(self, target: Target) -> None:
        """Remove it, with the packets that it holds."""
        target.walls.run("tc", "qdisc", "del", "dev", DEVICE, "root")


@dataclass(frozen=True)
class LoseNames(
    Filtered,
    witness="names_lost",
    certifies="name servers that do not answer; says nothing about wrong answers, nor known addresses",
):
    """No name can be looked up from the rank's host: its requests to name servers are dropped."""

    def strike(self, target: Target) -> None:
        """Have the rank's kernel drop packets for the port of name servers."""
        add_rules(target, target.rank, output="meta l4proto { tcp, udp } th dport 53 drop")


@dataclass(frozen=True)
class DelayPackets(
    Relayed,
    witness="delayed",
    certifies="a long way out of one host, whose packets may overtake each other; nothing is lost",
):
    """The rank's packets leave `ms` milliseconds later, more or less by up to `jitter_ms`, drawn from `seed`.

    Raises `PlanError` for a second or more: so long a wait for a network cannot be told from one that never ends.
    """

    ms: float = 50.0
    jitter_ms: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.ms - self.jitter_ms <= self.ms + self.jitter_ms < _LATEST_MS:
            raise PlanError(f"a delay of {self.ms:g} ± {self.jitter_ms:g} ms cannot be had; use 0 to {_LATEST_MS} ms")

    def settings(self) -> tuple[float, ...]:
        """Return the settings of the relay."""
        return self.ms, self.jitter_ms, 0.0, 0.0, self.seed


@dataclass(frozen=True)
class DuplicatePackets(
    Relayed,
    witness="duplicated",
    certifies="packets that come twice, which TCP throws away; says nothing about RDMA",
):
    """A `share` of the rank's packets leaves twice, drawn from `seed`."""

    share: float = 0.5
    seed: int = 0

    def settings(self) -> tuple[float, ...]:
        """Return the settings of the relay."""
        return 0.0, 0.0, self.share, 0.0, self.seed


@dataclass(frozen=True)
class DamagePackets(
    Relayed,
    witness="damaged",
    certifies="damage that a checksum shows; says nothing about damage behind a card that checks it",
):
    """A `share` of the rank's packets leaves with one bit flipped, behind the headers, drawn from `seed`."""

    share: float = 0.2
    seed: int = 0

    def settings(self) -> tuple[float, ...]:
        """Return the settings of the relay."""
        return 0.0, 0.0, 0.0, self.share, self.seed


@dataclass(frozen=True)
class TakePort(
    Isolated,
    witness="port_taken",
    certifies="a port that another process has; says nothing about one that is taken and given back",
):
    """Somebody else listens on a port of the rank's host, by default the one of the job's store, and answers nobody."""

    port: int = 0

    def strike(self, target: Target) -> None:
        """Listen there. Raises `OSError` if the rank does already."""
        one = target.kept["listener"] = target.walls.open_socket(socket.AF_INET, socket.SOCK_STREAM)
        # Connections to the store of an earlier job there, closed a minute ago at most, do not keep it from listening.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("0.0.0.0", self.port or target.store))
        one.listen()

    def heal(self, target: Target) -> None:
        """Give the port back."""
        target.kept["listener"].close()


def _between(ones: Collection[int], others: Collection[int]) -> set[Way]:
    """Return the ways between two sets of ranks, there and back."""
    return {way for one in ones for other in others for way in ((one, other), (other, one))}


def _tries_in_vain(target: Target) -> bool:
    """Return whether a kernel has sent something between the rank and a peer that nobody has confirmed."""
    here = as_listed(target.walls.address)
    return any(
        entry.tries and here in (entry.link.local.host, entry.link.remote.host)
        for pid in (target.pid, *target.peers.values())
        for entry in listed(pid)
        if entry.state == "ESTABLISHED"
    )


def _cut(pid: int, descriptors: Iterable[int]) -> None:
    """Shut sockets of a process down. Raises `OSError`."""
    with contextlib.ExitStack() as stack:
        # All of them are in our hands before the first is cut: a peer that hears of one may close the others.
        for one in [stack.enter_context(duplicate(pid, descriptor)) for descriptor in descriptors]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError as error:
                # The peer has already answered the loss of another connection by closing this one.
                if error.errno != errno.ENOTCONN:
                    raise
