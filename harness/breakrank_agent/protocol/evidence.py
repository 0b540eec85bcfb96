"""Evidence: what a run records beyond points, payloads and ends, each at a cost, and the oracles that read it.

A plan names its evidence: that of the oracles which the scenario names. Every oracle judges whatever is on record,
whoever asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Each kind of evidence, and the oracles that can say nothing, or little, without it.
EVIDENCE: Mapping[str, tuple[str, ...]] = {
    # The ends of forward and backward passes: no oracle reads them, a picture draws how long each lasted.
    "phases": (),
    # Reads and writes of tensors and files, and what orders them.
    "accesses": ("race", "files"),
    # The contents of collectives, before and after, in sums and digests.
    "contents": ("collectives",),
    # Objects that are alive at the end of each step, by the line that made it.
    "census": ("leak",),
    # The size of the C heap at the end of each step; not beside a census, which moves it.
    "heap": ("native_leak",),
    # The norm of each parameter after each step.
    "norms": ("reference",),
    # The stacks of a rank that dies of a signal of its own.
    "crashes": ("crash",),
}


def evidence_for(oracles: Iterable[str]) -> tuple[str, ...]:
    """Return the evidence that pictures and these oracles need, in the order of `EVIDENCE`."""
    wanted = set(oracles)
    found = [name for name, readers in EVIDENCE.items() if not readers or not wanted.isdisjoint(readers)]
    return tuple(name for name in found if name != "heap" or "census" not in found)
