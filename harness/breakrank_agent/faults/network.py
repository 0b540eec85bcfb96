"""Faults of the network: what connects two ranks is cut, closed one way, slow, or loses what it carries.

The first two need no walls; all others change the network of a rank that has one of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from breakrank_agent.kernel import packet_relay
from breakrank_agent.kernel.sockets import as_listed, connected, established, listed
from breakrank_agent.protocol.fault import Fault, Target
from breakrank_agent.protocol.trigger import PlanError

#: From which rank to which.
Way = tuple[int, int]
#: How a rank behind walls calls its end of the cable.
_DEVICE = "eth0"
#: Milliseconds that a delay stays below.
_LATEST_MS = 1000
#: Of how many packets in a row it is drawn which are lost.
CYCLE = 64

#: pidfd_getfd(2) has this number on every architecture.
_PIDFD_GETFD = 438


@dataclass(frozen=True)
class DropLink(Fault):
    """Every connection of the process group between the rank and `peer` is cut, in both directions.

    The job's store keeps its connections. `lasting`: for good, so that new connections are cut, too, whenever the rank
    comes to the point of the strike again, in this attempt and later ones.
    """

    peer: int = 0
    lasting: bool = False

    side: ClassVar[str] = "outside"
    needs: ClassVar[tuple[str, ...]] = ("ptrace", "pidfd")
    certifies: ClassVar[str] = "lost TCP connections of which both ends hear; says nothing about lost packets or RDMA"
    witness: ClassVar[str] = "link"

    def lasts(self) -> bool:
        """Whether the link is cut for good."""
        return self.lasting

    def strike(self, target: Target) -> None:
        """Shut the rank's own sockets down, through duplicates of them. Raises `OSError` if there are none."""
        peer = target.peers.get(self.peer)
        links = established(target.pid, peer, but=target.store) if peer is not None else {}
        if not links:
            raise ConnectionError(f"there is no connection between rank {target.rank} and rank {self.peer}")
        with contextlib.ExitStack() as stack:
            # All of them are in our hands before the first is cut: whoever hears of one may close the others.
            ours = [stack.enter_context(duplicate(target.pid, descriptor)) for descriptor in links.values()]
            for one in ours:
                _shut_down(one)


@dataclass(frozen=True)
class LoseStore(Fault):
    """The rank's connections to the job's rendezvous store are cut, in both directions; the store lives on."""

    side: ClassVar[str] = "outside"
    needs: ClassVar[tuple[str, ...]] = ("ptrace", "pidfd")
    certifies: ClassVar[str] = "lost connections to a TCPStore that can be made anew; says nothing about a store's end"
    witness: ClassVar[str] = "store"

    def strike(self, target: Target) -> None:
        """Shut the rank's own sockets down, through duplicates of them. Raises `OSError` if there are none."""
        links = connected(target.pid, target.store) if target.store else {}
        if not links:
            raise ConnectionError(f"there is no connection between rank {target.rank} and the store")
        with contextlib.ExitStack() as stack:
            for one in [stack.enter_context(duplicate(target.pid, descriptor)) for descriptor in links.values()]:
                _shut_down(one)


@dataclass(frozen=True)
class CutLink(Fault):
    """The rank's link is down: nothing gets to it or from it, and no connection is told."""

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns",)
    certifies: ClassVar[str] = "a network card or cable that is dead; says nothing about RDMA, nor a lost host"
    witness: ClassVar[str] = "closed ways"

    def closes(self, rank: int, ranks: Collection[int]) -> set[Way]:
        """Return the ways on which nothing arrives any more."""
        return _between({rank}, set(ranks) - {rank})

    def strike(self, target: Target) -> None:
        """Set the rank's end down."""
        target.walls.run("ip", "link", "set", _DEVICE, "down")

    def heal(self, target: Target) -> None:
        """Set it up again."""
        target.walls.run("ip", "link", "set", _DEVICE, "up")


@dataclass(frozen=True)
class DisconnectContainer(CutLink):
    """The rank's container is taken off its network by the engine: its interface is gone, and with it its address."""

    contained: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("docker", "netns")
    certifies: ClassVar[str] = "what `docker network disconnect` does; says nothing of a cable or card, nor of others"
    witness: ClassVar[str] = "disconnected"

    def strike(self, target: Target) -> None:
        """Have the engine do it."""
        target.walls.disconnect()

    def heal(self, target: Target) -> None:
        """Have the engine connect it."""
        target.walls.connect()


@dataclass(frozen=True)
class Partition(Fault):
    """The ranks from `first` on and those before it no longer reach each other: what they send is dropped.

    It comes at once, on all ranks, when the rank of the strike is at its point.
    """

    first: int = 1

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns", "nft")
    certifies: ClassVar[str] = "a network in two halves that silently drops what passes between; links stay up"
    witness: ClassVar[str] = "closed ways"

    def closes(self, rank: int, ranks: Collection[int]) -> set[Way]:
        """Return the ways on which nothing arrives any more."""
        far = {one for one in ranks if one >= self.first}
        return _between(far, set(ranks) - far)

    def strike(self, target: Target) -> None:
        """Have every rank of the one half drop what is from or for the other. Raises `OSError` if a half is empty."""
        far = [rank for rank in target.around if rank >= self.first]
        near = ", ".join(walls.address for rank, walls in target.around.items() if rank < self.first)
        if not far or not near:
            raise OSError(f"no rank is on the {'near' if far else 'far'} side of rank {self.first}")
        for rank in far:
            _filter(target, rank, f"ip saddr {{ {near} }} drop", f"ip daddr {{ {near} }} drop")

    def heal(self, target: Target) -> None:
        """Take the rules away."""
        for rank in sorted(target.around):
            if rank >= self.first:
                _unfilter(target, rank)


@dataclass(frozen=True)
class OneWayLink(Fault):
    """Nothing that `peer` sends reaches the rank any more, while all that the rank sends still arrives."""

    peer: int = 0

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns", "nft")
    certifies: ClassVar[str] = "packets dropped in one direction, confirmations of TCP among them; links stay up"
    witness: ClassVar[str] = "closed ways"

    def closes(self, rank: int, ranks: Collection[int]) -> set[Way]:
        """Return the way on which nothing arrives any more."""
        return {(self.peer, rank)}

    def strike(self, target: Target) -> None:
        """Have the rank drop what comes from the peer."""
        _filter(target, target.rank, input=f"ip saddr {target.walls_of(self.peer).address} drop")

    def heal(self, target: Target) -> None:
        """Take the rule away."""
        _unfilter(target, target.rank)


@dataclass(frozen=True)
class ResetConnections(Fault):
    """The connections of the process group between the rank and `peer` are reset, once; new ones can be made."""

    peer: int = 0

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns",)
    certifies: ClassVar[str] = "connections that a firewall or switch gives up; both ends hear of it"
    witness: ClassVar[str] = "link"

    def strike(self, target: Target) -> None:
        """Have the rank's kernel abort them, which sends the peer a reset. Raises `OSError` if there are none."""
        peer = target.peers.get(self.peer)
        if peer is None or not established(target.pid, peer, but=target.store):
            raise ConnectionError(f"there is no connection between rank {target.rank} and rank {self.peer}")
        others = f"( sport != :{target.store} and dport != :{target.store} )"
        target.walls.run("ss", "--kill", "--tcp", f"dst {target.walls_of(self.peer).address} and {others}")


@dataclass(frozen=True)
class FlapLink(CutLink):
    """The rank's link is down and up again, `times` times: each time down until somebody has sent in vain.

    It goes down again once all that was sent has arrived.
    """

    times: int = 2

    certifies: ClassVar[str] = "a link that comes back while TCP still tries; says nothing about one that stays down"

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
class LosePackets(Fault):
    """Some packets to and from the rank are lost: each `every`-th, or a `share` of them that is drawn from `seed`.

    Which ones is counted, packet by packet and direction by direction, over and over. Raises `PlanError` for a share
    that leaves none or all.
    """

    every: int = 0
    share: float = 0.1
    seed: int = 0

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns", "nft")
    certifies: ClassVar[str] = "lost packets of any protocol, which TCP sends again; says nothing about RDMA"
    witness: ClassVar[str] = "lossy ways"

    def __post_init__(self) -> None:
        if not self.every and not 1 <= round(self.share * CYCLE) < CYCLE:
            raise PlanError(f"a share of {self.share} loses no packet or all of them; use one from 0.01 to 0.99")

    @property
    def cycle(self) -> int:
        """After how many packets it begins anew."""
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
        _filter(target, target.rank, f"iifname {_DEVICE} {drop}", f"oifname {_DEVICE} {drop}")

    def heal(self, target: Target) -> None:
        """Take the rules away."""
        _unfilter(target, target.rank)


@dataclass(frozen=True)
class LimitBandwidth(Fault):
    """What the rank sends leaves at `kbit` thousand bits a second, after the first `burst` bytes; nothing is lost."""

    kbit: int = 1000
    burst: int = 16384

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns", "tbf")
    certifies: ClassVar[str] = "a slow way out of one host; says nothing about a slow way in"
    witness: ClassVar[str] = "held back"

    def strike(self, target: Target) -> None:
        """Put a token bucket at the rank's end."""
        rate = ("rate", f"{self.kbit}kbit", "burst", str(self.burst), "limit", "64mb")
        target.walls.run("tc", "qdisc", "add", "dev", _DEVICE, "root", "tbf", *rate)

    def heal(self, target: Target) -> None:
        """Take it away, with what it holds."""
        target.walls.run("tc", "qdisc", "del", "dev", _DEVICE, "root")


@dataclass(frozen=True)
class LoseNames(Fault):
    """No name can be looked up from the rank's host: what it asks a name server is dropped."""

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns", "nft")
    certifies: ClassVar[str] = "name servers that do not answer; says nothing about wrong answers, nor known addresses"
    witness: ClassVar[str] = "names"

    def strike(self, target: Target) -> None:
        """Have the rank's kernel drop what goes to the port of name servers."""
        _filter(target, target.rank, output="meta l4proto { tcp, udp } th dport 53 drop")

    def heal(self, target: Target) -> None:
        """Take the rule away."""
        _unfilter(target, target.rank)


@dataclass(frozen=True)
class DelayPackets(Fault):
    """What the rank sends leaves `ms` milliseconds later, more or less by up to `jitter_ms`, drawn from `seed`.

    Raises `PlanError` for a second or more: who waits so long for a network cannot be told from who waits for ever.
    """

    ms: float = 50.0
    jitter_ms: float = 0.0
    seed: int = 0

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns", "tun")
    certifies: ClassVar[str] = "a long way out of one host, whose packets may overtake each other; nothing is lost"
    witness: ClassVar[str] = "late"

    def __post_init__(self) -> None:
        if not 0 < self.ms - self.jitter_ms <= self.ms + self.jitter_ms < _LATEST_MS:
            raise PlanError(f"a delay of {self.ms:g} ± {self.jitter_ms:g} ms cannot be had; use 0 to {_LATEST_MS} ms")

    def strike(self, target: Target) -> None:
        """Lay the wire."""
        _lay_wire(target, self.ms, self.jitter_ms, 0.0, 0.0, self.seed)

    def heal(self, target: Target) -> None:
        """Take the wire away, with what is on it."""
        _take_wire(target)


@dataclass(frozen=True)
class DuplicatePackets(Fault):
    """A `share` of what the rank sends leaves twice, drawn from `seed`."""

    share: float = 0.5
    seed: int = 0

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns", "tun")
    certifies: ClassVar[str] = "packets that come twice, which TCP throws away; says nothing about RDMA"
    witness: ClassVar[str] = "twice"

    def strike(self, target: Target) -> None:
        """Lay the wire."""
        _lay_wire(target, 0.0, 0.0, self.share, 0.0, self.seed)

    def heal(self, target: Target) -> None:
        """Take the wire away."""
        _take_wire(target)


@dataclass(frozen=True)
class DamagePackets(Fault):
    """In a `share` of what the rank sends one bit is another one, behind the headers; drawn from `seed`."""

    share: float = 0.2
    seed: int = 0

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns", "tun")
    certifies: ClassVar[str] = "damage that a checksum shows; says nothing about damage behind a card that checks it"
    witness: ClassVar[str] = "damaged"

    def strike(self, target: Target) -> None:
        """Lay the wire."""
        _lay_wire(target, 0.0, 0.0, 0.0, self.share, self.seed)

    def heal(self, target: Target) -> None:
        """Take the wire away."""
        _take_wire(target)


@dataclass(frozen=True)
class TakePort(Fault):
    """Somebody else listens on a port of the rank's host, by default the one of the job's store, and answers nobody."""

    port: int = 0

    side: ClassVar[str] = "outside"
    walled: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("netns",)
    certifies: ClassVar[str] = "a port that another process has; says nothing about one that is taken and given back"
    witness: ClassVar[str] = "port"

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


def _lay_wire(target: Target, *settings: float) -> None:
    """Have all that leaves the rank go through a wire of ours; `settings` are those of the script."""
    target.kept["wire"] = target.start(packet_relay.__file__, *map(str, settings))
    target.walls.run("ip", "link", "set", packet_relay.DEVICE, "up")
    target.walls.run("tc", "qdisc", "add", "dev", _DEVICE, "clsact")
    everything = ("protocol", "all", "prio", "1", "u32", "match", "u32", "0", "0")
    there = ("action", "mirred", "egress", "redirect", "dev", packet_relay.DEVICE)
    target.walls.run("tc", "filter", "add", "dev", _DEVICE, "egress", *everything, *there)


def _take_wire(target: Target) -> None:
    target.walls.run("tc", "qdisc", "del", "dev", _DEVICE, "clsact")
    target.stop(target.kept["wire"])


def _between(ones: Collection[int], others: Collection[int]) -> set[Way]:
    """Return the ways between two sets of ranks, there and back."""
    return {way for one in ones for other in others for way in ((one, other), (other, one))}


def _filter(target: Target, rank: int, input: str = "", output: str = "") -> None:
    """Add rules to what comes into a rank's network, and to what leaves it, in a table of this strike alone."""
    # What leaves is looked at before an engine gives it another address: its own name server has another port, too.
    chains = [
        f"chain {hook} {{\n type filter hook {hook} priority {priority}\n {rule}\n}}"
        for hook, priority, rule in (("input", "filter", input), ("output", "raw", output))
        if rule
    ]
    table = f"table inet {_table(target)} {{\n" + "\n".join(chains) + "\n}\n"
    target.walls_of(rank).run("nft", "-f", "-", text=table)


def _unfilter(target: Target, rank: int) -> None:
    target.walls_of(rank).run("nft", "delete", "table", "inet", _table(target))


def _table(target: Target) -> str:
    """Return the name of the strike's rules: the same fault may strike a rank twice, and is healed twice."""
    return f"breakrank_{target.number}"


def _tries_in_vain(target: Target) -> bool:
    """Return whether a kernel has sent something between the rank and a peer that nobody has confirmed."""
    here = as_listed(target.walls.address)
    return any(
        entry.tries and here in (entry.link.local.host, entry.link.remote.host)
        for pid in (target.pid, *target.peers.values())
        for entry in listed(pid)
        if entry.state == "ESTABLISHED"
    )


def _shut_down(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        # The peer has already answered the loss of another connection by closing this one.
        if error.errno != errno.ENOTCONN:
            raise


def duplicate(pid: int, descriptor: int) -> socket.socket:
    """Return a socket of another process, as one of ours. Raises `OSError` where the kernel forbids it."""
    process = os.pidfd_open(pid)
    try:
        ours = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    if ours < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return socket.socket(fileno=ours)
