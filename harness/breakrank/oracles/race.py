"""Objects to accesses to the same bytes that nothing orders, whether or not any harm came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from breakrank.analysis.byte_ranges import common
from breakrank.analysis.happens_before import Access, Pair, accesses, by_storage, overwritten, unordered
from breakrank.analysis.moments import clocks_of
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding

PROPERTY = "races"

#: The most findings of one attempt; further pairs of places are counted.
_MOST = 8
_VERBS = {"r": "reads", "w": "writes", "rw": "updates"}


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return one finding for each storage and pair of places, the first of a storage with how an update got lost."""
    watched = any(e.get("accesses") for lived in history.ranks.values() for e in lived.of_kind("note"))
    findings: list[Finding] = []
    for attempt in history.attempts:
        found = [
            access for access in accesses(history.attempt(attempt), clocks_of(history, attempt)) if "lo" in access.event
        ]
        watched = watched or bool(found)
        findings += _findings(history.attempt(attempt), found, attempt)
    if not watched:
        raise Abstain("no reads and writes of tensors are on record")
    return findings


def _findings(ranks: Sequence[RankHistory], found: Sequence[Access], attempt: int) -> list[Finding]:
    findings: list[Finding] = []
    # Only under a schedule is the order on record the one in which the accesses were made.
    scheduled = any("turn" in e or "pick" in e for lived in ranks for e in lived.events)
    for touching in by_storage(found).values():
        places: dict[frozenset[str], Pair] = {}
        for pair in unordered(touching):
            places.setdefault(frozenset((_place(pair.one), _place(pair.other))), pair)
        if places:
            findings.append(_finding(touching, list(places.values()), attempt, scheduled))
    return _alike(sorted(findings, key=_order))[:_MOST]


def _order(finding: Finding) -> tuple[int, bool]:
    """Sort by step; in one step, what has done harm comes first."""
    return finding.step, finding.cause != "lost update"


def _alike(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, the same places on several ranks, which run one program, as one: the first, or worst."""
    kept: dict[frozenset[str], Finding] = {}
    for finding in findings:
        key = frozenset(finding.places)
        first = kept.setdefault(key, finding)
        worst = finding if (finding.cause, first.cause) == ("lost update", "data race") else first
        kept[key] = replace(worst, ranks=tuple(sorted({*first.ranks, *finding.ranks})))
    return sorted(kept.values(), key=_order)


def _finding(touching: Sequence[Access], pairs: Sequence[Pair], attempt: int, scheduled: bool) -> Finding:
    """Return the finding on one storage: that an update got lost, if the accesses show it, else that one may."""
    racing = {thread for pair in pairs for thread in (pair.one.thread, pair.other.thread)}
    shown = overwritten([a for a in touching if a.thread in racing and _in_order(a)]) if scheduled else []
    one, other = (shown[-2], shown[-1]) if shown else pairs[0]
    evidence: dict[str, Any] = {
        "one": _words(one),
        "other": _words(other),
        "what": _bytes(one, other, touching),
        "pairs": len(pairs),
        "events": [_shown(a) for a in shown or (one, other)],
    }
    cause = "data race"
    if shown:
        cause = "lost update"
        evidence["how"] = f"{_who(other)} ({_place(other)}) overwrote the update of {_who(one)} ({_place(one)})"
        evidence["how"] += f" at step {one.event['step']}, which it had not seen: {evidence['what']}"
    ranks = tuple(sorted({one.rank, other.rank}))
    step = min(one.event["step"], other.event["step"])
    return Finding("race", cause, ranks, step, attempt, (_place(one), _place(other)), evidence)


def _in_order(access: Access) -> bool:
    """Return whether an access stands on record where it was made: what was kept and put on record later does not."""
    return "at" not in access.event


def _who(access: Access) -> str:
    """Name a thread; the main thread of a rank is the rank itself."""
    rank, name = access.thread
    return f"rank {rank}" if name == "main" else f"{name} of rank {rank}"


def _place(access: Access) -> str:
    return str(access.event.get("site") or access.event["op"])


def _words(access: Access) -> str:
    """Say who does what where; of what goes on beside its thread, that nobody has waited for it."""
    verb, op = _VERBS.get(access.event["mode"], access.event["mode"]), _short(access.event["op"])
    if access.waits:
        return f"rank {access.rank}'s {op} ({_place(access)}), which nobody has waited for, {verb}"
    return f"{_who(access)} {verb} in {op} ({_place(access)})"


def _short(op: str) -> str:
    return op.split("/")[0].split(".")[0].removeprefix("c10d::").strip("_")


def _bytes(one: Access, other: Access, touching: Sequence[Access]) -> str:
    """Say which bytes of which tensor both touch."""
    lo, hi = common(one.event, other.event)
    named = [a.event["tensor"] for a in touching if "tensor" in a.event]
    tensor = f"a tensor ({named[0]})" if named else "a tensor"
    return f"bytes {lo} to {hi} of {tensor}"


def _shown(access: Access) -> dict[str, Any]:
    """Return what a report shows of an access."""
    event = access.event
    optional = {"turn": event.get("turn"), "pick": event.get("pick"), "site": event.get("site")}
    kept = {name: value for name, value in optional.items() if value is not None}
    shown = {"rank": access.rank, "seq": access.thread.name}
    return {**shown, "step": event["step"], "op": event["op"], "mode": event["mode"], **kept}
