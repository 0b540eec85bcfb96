"""Find orphaned children that keep an ended rank's connections open, so that no peer misses the rank.

A child made by fork(2) has every socket of its parent, and a connection is closed only when the last who holds it has
gone. The workers of a torch loader look every five seconds whether their rank is still there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

import psutil

from breakrank.host.session import Session
from breakrank.host.supervisor import descendants
from breakrank_agent.kernel.sockets import Link, ends


def find_orphans(session: Session, live: Collection[int]) -> list[int]:
    """Return the processes that hold the other end of a live rank's connection, and are neither a rank nor above one.

    `live` are the pids of the ranks that run. Children of a live rank hold no other ends than it does.
    """
    held = {link for pid in live for link in ends(pid)}
    wanted = {Link(link.remote, link.local) for link in held} - held
    if not wanted:
        return []
    others = {*descendants(session.supervisor_pid)} - session.kept - {*live} - _above(live)
    return sorted(pid for pid in others if wanted & ends(pid).keys())


def _above(pids: Collection[int]) -> set[int]:
    """Return the processes that have started these, as a launcher, whose store they are connected to."""
    above: set[int] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            above |= {parent.pid for parent in psutil.Process(pid).parents()}
    return above
