"""Objects to a C heap that grows: memory of libraries, which no census of tensors and objects can see or name.

A heap has no sites, and moves when nothing is wrong: in a sound job of two ranks by 1 to 3 kB a step in the first 20
steps, by 400 bytes in the next 20, and by less than 200 later (means, measured), while frameworks fill caches of their
own. So it is judged from step 40 on. It leaks if it grew at four of five of the last 20 steps or more, and by 1 KiB a
step in the median of the slopes between any two of them (the estimator of Theil and Sen, which jumps do not move).
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding

PROPERTY = "memory"

#: Steps that are not judged, how many are, and the least share of them at which the heap grows.
WARM_UP = 40
WINDOW = 20
SHARE = 0.8
LEAST_BYTES = 1024


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return for each attempt the ranks whose heap grows."""
    longest = max((len(lived.of_kind("heap")) for lived in history.ranks.values()), default=0)
    if not longest:
        raise Abstain("no heap was measured: this needs glibc 2.33 or newer, and a run without the oracle leak")
    if longest < WARM_UP + WINDOW:
        raise Abstain(f"{longest} steps are too few to tell a leak from a heap that moves: it takes {WARM_UP + WINDOW}")
    findings = []
    for attempt in history.attempts:
        slopes = {lived.rank: slope(lived) for lived in history.attempt(attempt)}
        leaking = {rank: by for rank, by in slopes.items() if by is not None}
        if leaking:
            evidence = {"bytes_per_step": round(statistics.median(leaking.values()))}
            since = min(int(history.ranks[attempt, rank].of_kind("heap")[-WINDOW]["step"]) for rank in leaking)
            findings.append(Finding("native_leak", "native leak", tuple(leaking), since, attempt, evidence=evidence))
    return findings


def slope(lived: RankHistory) -> float | None:
    """Return by how many bytes a step the rank's heap grows, or None if it does not, or too little was seen."""
    heap = [(int(e["step"]), int(e["bytes"])) for e in lived.of_kind("heap") if e["step"] >= WARM_UP][-WINDOW - 1 :]
    if len(heap) < WINDOW + 1:
        return None
    grew = sum(after > before for (_, before), (_, after) in itertools.pairwise(heap))
    by = statistics.median((b - a) / (later - sooner) for (sooner, a), (later, b) in itertools.combinations(heap, 2))
    return by if grew >= SHARE * WINDOW and by >= LEAST_BYTES else None
