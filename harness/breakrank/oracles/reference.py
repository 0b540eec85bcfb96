"""Objects to parallel training that is not the training of one rank on the same global batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding
from breakrank_agent.protocol.events import PayloadEvent

#: The units in the last place that a step may add to the error for each rank whose gradient is added.
ULPS = 8


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Compare the norms of the ranks' parameters, part by part, after each step, within what rounding explains.

    A sum over several ranks is rounded in another order than one rank's, and every step builds on the one before. A
    tolerance that the terms give replaces this bound. Both are relative to the norm of all parameters.
    """
    if terms.reference is None:
        raise Abstain("there is no run of the same training as one rank")
    if len(history.attempts) != 1:
        raise Abstain("the job was started again, and its steps are not those of one run")
    (one,) = terms.reference.last
    model = {int(e["step"]): e for e in one.payloads("step") if "norms" in e}
    pairs = [
        (int(e["step"]), lived.rank, e["norms"], model[e["step"]]["norms"])
        for lived in history.last
        if lived.ended_well
        for e in lived.payloads("step")
        if "norms" in e and e["step"] in model
    ]
    if not pairs:
        raise Abstain("no rank ended well and recorded its parameters, here and as one rank")
    eps = max((e["eps"] for e in one.of_kind("names")), default=0.0)
    for step in sorted({step for step, *_ in pairs}):
        bound = terms.tolerance or ULPS * eps * terms.ranks * step
        parted = {rank: _parted(here, there, bound) for at, rank, here, there in pairs if at == step}
        if any(parted.values()):
            return [_finding(history, one, step, {rank: parts for rank, parts in parted.items() if parts})]
    return []


def _parted(here: Sequence[float], there: Sequence[float], bound: float) -> list[int]:
    """Return the parts whose norms lie further apart than the bound; all, if there are others."""
    if len(here) != len(there):
        return list(range(max(len(here), len(there))))
    whole = sum(norm * norm for norm in there) ** 0.5
    return [part for part, (a, b) in enumerate(zip(here, there, strict=True)) if not abs(a - b) <= bound * whole]


def _finding(history: History, one: RankHistory, step: int, parted: dict[int, list[int]]) -> Finding:
    """Return the finding; batches of several sizes explain it, where they were averaged as if they were alike."""
    names: list[str] = next((e["names"] for e in one.of_kind("names")), [])
    first = min(min(parts) for parts in parted.values())
    sizes = {lived.rank: _batch(lived, step) for lived in history.last}
    evidence: dict[str, Any] = {"first": f", in {names[first]} first" if first < len(names) else ""}
    cause = "reference mismatch"
    if len(set(sizes.values())) > 1:
        cause = "per-rank loss scaling"
        evidence["sizes"] = " and ".join(str(size) for size in sizes.values())
    return Finding("reference", cause, tuple(sorted(parted)), step, evidence=evidence)


def _batch(lived: RankHistory, step: int) -> int:
    """Return how many samples the rank loaded in a step."""
    return sum(_samples(event) for event in lived.payloads("load") if event["step"] == step)


def _samples(event: PayloadEvent) -> int:
    return len(event.get("indices") or event.get("samples") or ())
