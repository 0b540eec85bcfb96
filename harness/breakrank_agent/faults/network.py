"""Faults of the network: what connects two ranks is cut."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
from dataclasses import dataclass
from typing import ClassVar

from breakrank_agent.fault import Fault, Target
from breakrank_agent.sockets import connected, established

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
