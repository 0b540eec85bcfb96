"""Objects to states that are of no one moment: training changed them as they were written, or as they were read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from breakrank.history.reader import History
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding

PROPERTY = "checkpoint"


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Look for tensors that changed while a thread saved them, and for files written over while they were mapped."""
    findings = [*_changed(history), *_overwritten(history)]
    if not findings and not any(lived.payloads("save") or lived.payloads("restore") for lived in history.last):
        raise Abstain("nothing was saved or loaded")
    return findings


def _changed(history: History) -> list[Finding]:
    for attempt in history.attempts:
        told = {lived.rank: e for lived in history.attempt(attempt) for e in lived.of_kind("changed")[:1]}
        if told:
            event = told[min(told)]
            evidence: Mapping[str, int | str] = {"path": event["path"], "count": event["count"], "of": event["of"]}
            return [_found("changed while saved", told.keys(), int(event["step"]), attempt, event["site"], evidence)]
    return []


def _overwritten(history: History) -> list[Finding]:
    for attempt in history.attempts:
        told = {lived.rank: e for lived in history.attempt(attempt) for e in lived.of_kind("overwritten")[:1]}
        if told:
            event = told[min(told)]
            evidence = {"path": event["path"]}
            return [
                _found("mapped file overwritten", told.keys(), int(event["step"]), attempt, event["site"], evidence)
            ]
    return []


def _found(
    cause: str, ranks: Collection[int], step: int, attempt: int, site: str, evidence: Mapping[str, int | str]
) -> Finding:
    places = (site,) if site else ()
    said = {**evidence, "at": f" ({site})" if site else ""}
    return Finding("moments", cause, tuple(sorted(ranks)), max(1, step), attempt, places, said)
