"""Faults of the environment: the surroundings of a rank are not as it takes them to be."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import BinaryIO

from breakrank_agent.kernel.rooted import mount_of, opened, reopen, resolve
from breakrank_agent.kernel.vdso import shift_wall_clock
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.payload import Payload
from breakrank_agent.protocol.target import Target

#: The files with a host's own names and with how they are read, and as much of them as is looked at.
_HOSTS, _HOST_CONF, _HOSTS_BYTES = "/etc/hosts", "/etc/host.conf", 1 << 16
#: The switch of the kernel that a network has no IPv6 (ip-sysctl).
_NO_IPV6 = "/proc/sys/net/ipv6/conf/lo/disable_ipv6"


@dataclass(frozen=True)
class JumpClock(
    Fault,
    needs=("clock",),
    witness="clock",
    certifies=(
        "a wall clock that is read wrong; the kernel's own stays: by that it dates files, and ends waits until a time"
    ),
):
    """The rank's wall clock jumps by `seconds`, back if they are negative, as where a host is set right by NTP.

    The C library returns another time of day, to Python and C++, and in children that the rank forks; monotonic clocks
    go on as ever.
    """

    seconds: int = 3600

    def strike_inside(self, payload: Payload) -> None:
        """Shift it."""
        shift_wall_clock(self.seconds)


@dataclass(frozen=True)
class PreferIpv6(
    Fault,
    side="outside",
    walled=True,
    witness="ipv6_first",
    certifies="a name with ::1, on which nobody listens, before its IPv4 address; says nothing about IPv6 links",
):
    """The first peer's name has two addresses for the rank: ::1, which the C library puts first, and the peer's own."""

    def strike(self, target: Target) -> None:
        """Write both into the rank's own file of hosts. Raises `OSError` if it has none, or would read one of them."""
        peer = next(walls for rank, walls in sorted(target.around.items()) if rank != target.rank)
        with target.files() as files, opened(resolve(files.root, _HOSTS, links=False)) as found:
            if not _takes_all(files.root):
                raise OSError(f"a name has one address here: {_HOST_CONF} does not say 'multi on' (host.conf(5))")
            if mount_of(found) == mount_of(files.root):
                raise OSError(f"the rank has no {_HOSTS} of its own")
            _enable_ipv6(target)
            with open(reopen(found, os.O_RDWR), "r+b") as file:
                text = target.kept["hosts"] = file.read(_HOSTS_BYTES)
                _rewrite(file, f"::1 {peer.host}\n{peer.address} {peer.host}\n".encode() + text)

    def heal(self, target: Target) -> None:
        """Write the file as it was, and leave the network as it was."""
        with contextlib.ExitStack() as stack:
            files = stack.enter_context(target.files())
            found = stack.enter_context(opened(resolve(files.root, _HOSTS, links=False)))
            _rewrite(stack.enter_context(open(reopen(found, os.O_RDWR), "r+b")), target.kept["hosts"])
        if "no_ipv6" in target.kept:
            target.walls.run("tee", _NO_IPV6, text=target.kept["no_ipv6"])


def _takes_all(root: int) -> bool:
    """Return whether the C library takes all addresses that the file of hosts has for a name."""
    try:
        with opened(resolve(root, _HOST_CONF)) as found, open(reopen(found, os.O_RDONLY), "rb") as file:
            return b"multi on" in file.read(_HOSTS_BYTES)
    except OSError:
        return False


def _enable_ipv6(target: Target) -> None:
    """Have the network know ::1, as a host's own does."""
    now = target.walls.run("cat", _NO_IPV6)
    if now.strip() != "0":
        target.kept["no_ipv6"] = now
        target.walls.run("tee", _NO_IPV6, text="0")


def _rewrite(file: BinaryIO, text: bytes) -> None:
    """Replace the content of a file where it lies: others see it by a mount."""
    file.seek(0)
    file.write(text)
    file.truncate()
