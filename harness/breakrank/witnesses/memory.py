"""Witnesses of memory: the kernel's count of a rank's pages."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from breakrank.host.blocked.threads import fields
from breakrank.witnesses import Evidence, Witness
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target


class Pages(NamedTuple):
    """The pages of a process that are in memory, and those in swap space, in kB, as the kernel counts them now."""

    resident: int
    swapped: int


#: The least loss, in kB, that says something: a thread that runs on may give some pages back.
_PAGED_OUT_KB = 512


class PagedOut(Witness[Pages]):
    """The kernel counts less of the rank in memory than before."""

    def look(self, fault: Fault, target: Target) -> Pages | None:
        """Have the kernel count; None if the rank is gone."""
        with contextlib.suppress(OSError, KeyError, ValueError):
            counted = fields(f"/proc/{target.pid}/smaps_rollup")
            return Pages(*(int(counted[name].split()[0]) for name in ("Rss", "Swap")))
        return None

    def judge(self, fault: Fault, evidence: Evidence[Pages]) -> str | None:
        """Compare the two counts."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or before.resident - after.resident < _PAGED_OUT_KB:
            return None
        swapped = f", {after.swapped - before.swapped} kB of it to swap" if after.swapped > before.swapped else ""
        return f"/proc/<pid>/smaps_rollup: {before.resident} kB in memory became {after.resident} kB{swapped}"
