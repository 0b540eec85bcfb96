"""Find orphaned children that keep an ended rank's connections open, so that no peer misses the rank.

A child made by fork(2) has every socket of its parent, and a connection is closed only when the last who holds it has
gone. The workers of a torch loader look every five seconds whether their rank is still there.
"""

from __future__ import annotations

from collections.abc import Collection

from breakrank.host import places
from breakrank.host.held_ends import holders
from breakrank.host.node_pid import NodePid, Pid
from breakrank.host.session import Session
from breakrank.host.supervisor import descendants
from breakrank_agent.kernel.sockets import Link


def find_orphans(session: Session, live: Collection[Pid]) -> list[Pid]:
    """Return the processes that hold the other end of a live rank's connection, and are neither a rank nor above one.

    `live` are the ranks that run. Children of a live rank hold no other ends than it does.
    """
    held = places.ends(live)
    wanted = {Link(link.remote, link.local) for link in held} - held
    if not wanted:
        return []
    here = [pid for pid in live if isinstance(pid, int)]
    others = {*descendants(session.supervisor_pid)} - session.kept
    found: list[Pid] = list(holders(wanted, others, here))
    for node in places.nodes_of(live):
        said = [[*link.local, *link.remote] for link in wanted]
        numbers = [pid.number for pid in live if isinstance(pid, NodePid) and pid.node is node]
        found += [NodePid(node, number) for number in node.ask("holders", said, numbers)]
    return found
