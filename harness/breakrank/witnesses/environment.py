"""Witnesses of the environment: the kernel's own view of it, beside the rank's."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from breakrank.host.name_lookup import addresses
from breakrank.witnesses import Evidence, Witness
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target


class Clock(Witness[None]):
    """The rank's wall clock, compared with the one by which the kernel dates files, is off by the fault's seconds."""

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Compare the two readings of both clocks."""
        seen, seconds = evidence.seen, getattr(fault, "seconds", 0)
        before, after = seen["ahead_s"] if seen else (0.0, 0.0)
        # The kernel dates files by its last tick.
        if not seconds or abs(after - before - seconds) > 1:
            return None
        return f"a file's date: the rank's clock is {after:+.0f} s off the kernel's, and was {before:+.0f} s"


class Named(NamedTuple):
    """The name of a peer, its addresses in the rank's own file of hosts, and whether the rank's kernel has ::1."""

    name: str
    addresses: Sequence[str]
    has_ipv6: bool


class Ipv6First(Witness[Named]):
    """A name that had no IPv6 address has ::1, and the rank's kernel, too: then it comes first (RFC 6724, 6)."""

    def look(self, fault: Fault, target: Target) -> Named | None:
        """Read the file as the rank does, and the kernel's list of its network's IPv6 addresses."""
        peer = next((walls for rank, walls in sorted(target.around.items()) if rank != target.rank), None)
        if peer is None:
            return None
        with contextlib.suppress(OSError), target.seen() as files:
            listed = Path(f"/proc/{target.pid}/net/if_inet6").read_text()
            return Named(peer.host, addresses(files.root, peer.host), f"{1:032x}" in listed)
        return None

    def judge(self, fault: Fault, evidence: Evidence[Named]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or not after.has_ipv6:
            return None
        if "::1" not in after.addresses or any(":" in one for one in before.addresses):
            return None
        return (
            f"/etc/hosts: {after.name} is {' and '.join(after.addresses)}; the rank's kernel has ::1, which comes first"
        )
