"""The few events that show a failure: those around the finding, and the strikes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from breakrank.history import History
from breakrank_agent.history import Event

#: How many points of each rank are shown, and how many events of an interleaving.
_POINTS = 3
_INTERLEAVED = 16
_COLUMN = 30


def telling_events(history: History, verdict: Mapping[str, Any]) -> list[str]:
    """Return the events that show the first finding; without a finding, the last ones of the last attempt."""
    finding = verdict["findings"][0] if verdict["findings"] else None
    if finding is not None:
        evidence = finding["evidence"].get("events")
        if evidence and all(isinstance(e, Mapping) and "rank" in e for e in evidence):
            return interleaving(evidence)
    attempts = history.attempts
    attempt = finding["attempt"] if finding else (attempts[-1] if attempts else 0)
    return [*_strikes(history), *_points(history, attempt, finding)]


def interleaving(events: Sequence[Event]) -> list[str]:
    """Return the events in their order, each in its rank's column."""
    ranks = sorted({int(e["rank"]) for e in events})
    lines = ["".join(f"rank {rank}".ljust(_COLUMN) for rank in ranks).rstrip()]
    for event in events[:_INTERLEAVED]:
        column = ranks.index(int(event["rank"]))
        lines.append((" " * _COLUMN * column + access_words(event)).rstrip())
    if len(events) > _INTERLEAVED:
        lines.append(f"... {len(events) - _INTERLEAVED} more")
    return lines


def access_words(event: Event) -> str:
    """Say a read or write of shared storage in few words."""
    verb = {"r": "reads", "w": "writes", "rw": "updates"}.get(str(event.get("mode", "")), str(event.get("op", "?")))
    step = f" (step {event['step']})" if "step" in event else ""
    turn = f"{event['turn']:>3} " if isinstance(event.get("turn"), int) else ""
    return f"{turn}{verb} {event.get('key', '')}{step}".replace("  (", " (")


def _strikes(history: History) -> list[str]:
    """Return one line a phase of each strike that somebody saw, without the same line twice."""
    seen = [e for e in history.conductor if e["kind"] == "strike"]
    for (attempt, rank), lived in sorted(history.ranks.items()):
        seen += [{**e, "attempt": attempt, "rank": rank} for e in lived.of_kind("strike")]
    lines = []
    for event in seen:
        if event.get("phase") == "armed":
            continue
        who = f" rank {event['rank']}" if "rank" in event else ""
        step = f" at step {event['step']}" if "step" in event else ""
        witness = f", seen by {event['witness']}" if event.get("witness") else ""
        lines.append(f"strike {event.get('strike', 0)} {event.get('phase', '?')}:{who}{step}{witness}")
    return list(dict.fromkeys(lines))


def _points(history: History, attempt: int, finding: Mapping[str, Any] | None) -> list[str]:
    """Return the last points of each rank up to the finding's step, and what it reported."""
    until = finding["step"] if finding and finding["step"] else None
    lines = []
    for lived in history.attempt(attempt):
        points = [e for e in lived.events if e["kind"] == "point" and (until is None or e["step"] <= until)]
        lines += [f"rank {lived.rank}  step {e['step']}  {_point(e)}" for e in points[-_POINTS:]]
        for event in lived.of_kind("raised")[-1:]:
            text = next(iter(str(event.get("message", "")).splitlines()), "")
            lines.append(f"rank {lived.rank}  step {event['step']}  raised {event.get('type')}: {text[:100]}")
    return lines


def _point(event: Event) -> str:
    visit = f" (visit {event['visit']})" if event.get("visit", 1) != 1 else ""
    detail = event.get("op") or event.get("path") or ""
    return f"{event['point']}{f' {detail}' if detail else ''}{visit}"
