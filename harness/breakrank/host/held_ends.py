"""Find out who holds the ends of connections."""

from __future__ import annotations

from collections.abc import Collection

from breakrank.host.supervisor import ancestors
from breakrank_agent.kernel.sockets import Link, ends


def holders(wanted: Collection[Link], among: Collection[int], live: Collection[int]) -> list[int]:
    """Return which of these processes hold an end that is wanted, and are neither a rank that runs nor above one."""
    above = {parent for pid in live for parent in ancestors(pid)}
    others = {*among} - {*live} - above
    return sorted(pid for pid in others if not ends(pid).keys().isdisjoint(wanted))
