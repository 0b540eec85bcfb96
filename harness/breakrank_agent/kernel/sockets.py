"""The TCP connections between two processes of this machine, as the kernel lists them in /proc (see proc(5))."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

#: States by the numbers that the kernel prints (include/net/tcp_states.h).
STATES = (
    "",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
)
#: Timers of a socket (proc(5)): what was sent and not confirmed is sent again; what could not be sent is tried later,
#: since the other end has no room, or the kernel no way there.
RESENDS, PROBES = 1, 4
#: In these states a connection may have something to deliver, or is still being made.
_BUSY = ("ESTABLISHED", "SYN_SENT")
#: The prefix of an IPv4 address that a socket of IPv6 holds.
_MAPPED = "0000000000000000FFFF0000"


class Address(NamedTuple):
    """An address as the kernel prints it (hexadecimal, an IPv4 one always as such), and a port."""

    host: str
    port: int


class Link(NamedTuple):
    """A connection, from one of its ends: the end's own address, and the other's."""

    local: Address
    remote: Address


class Entry(NamedTuple):
    """One line of the kernel's list; `inode` is 0 when no process holds the socket any more.

    `timer` is what the kernel waits for (`RESENDS`, `PROBES` or something else), `tries` how often it has sent in vain
    since something was confirmed.
    """

    link: Link
    state: str
    inode: int
    timer: int = 0
    tries: int = 0


def listed(pid: int) -> Iterator[Entry]:
    """Yield every TCP socket in the network that the process is in."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/net/{name}", encoding="ascii") as file:
            next(file)
            yield from map(_entry, file)


def held(pid: int) -> dict[int, int]:
    """Return the process's sockets: inode to descriptor. Those that we may not see are left out."""
    found: dict[int, int] = {}
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            # A descriptor may be closed while we read.
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{name}")
                if target.startswith("socket:["):
                    found[int(target[8:-1])] = int(name)
    return found


def established(pid: int, peer: int, but: int = 0) -> dict[Link, int]:
    """Return the established connections between two processes: the first one's end, and its descriptor.

    Connections to the port `but`, on either side, are left out.
    """
    mine, theirs = ends(pid), ends(peer)
    return {
        link: descriptor
        for link, descriptor in mine.items()
        if Link(link.remote, link.local) in theirs and but not in (link.local.port, link.remote.port)
    }


def connected(pid: int, port: int) -> dict[Link, int]:
    """Return the process's established connections to a port: its own end, and its descriptor."""
    return {link: descriptor for link, descriptor in ends(pid).items() if link.remote.port == port}


def undelivered(pids: Iterable[int]) -> dict[int, list[Entry]]:
    """Return, by process, its connections that have something to deliver, or are still being made."""
    found: dict[int, list[Entry]] = {}
    # To list the sockets of a network takes the kernel milliseconds, and most processes share one.
    networks: dict[int, list[Entry]] = {}
    for pid in pids:
        found[pid] = []
        with contextlib.suppress(OSError):
            network = os.stat(f"/proc/{pid}/ns/net").st_ino
            if network not in networks:
                networks[network] = [e for e in listed(pid) if e.timer in (RESENDS, PROBES) and e.state in _BUSY]
            sockets = held(pid) if networks[network] else {}
            found[pid] = [entry for entry in networks[network] if entry.inode in sockets]
    return found


def as_listed(address: str) -> str:
    """Return an IPv4 address as the kernel lists it: the bytes of the address as one number of this machine's."""
    return f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}"


def ends(pid: int) -> dict[Link, int]:
    """Return the established connections of which a process holds an end: this end, and its descriptor."""
    sockets = held(pid)
    with contextlib.suppress(OSError):
        return {e.link: sockets[e.inode] for e in listed(pid) if e.state == "ESTABLISHED" and e.inode in sockets}
    return {}


def _entry(line: str) -> Entry:
    words = line.split()
    link, state = Link(_address(words[1]), _address(words[2])), STATES[int(words[3], 16)]
    tries = int(words[6], 16) + int(words[8])
    return Entry(link, state, int(words[9]), int(words[5].split(":")[0], 16), tries)


def _address(text: str) -> Address:
    host, _, port = text.partition(":")
    return Address(host[len(_MAPPED) :] if host.startswith(_MAPPED) else host, int(port, 16))
