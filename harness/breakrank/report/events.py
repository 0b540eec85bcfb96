"""The few events that show a failure: those around the finding, and the strikes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from breakrank.history.reader import History
from breakrank_agent.protocol.events import PointEvent, RaisedEvent, ReportEvent, StrikeOutcomeEvent

#: The most events shown of each rank, and of an interleaving.
_EVENTS = 4
_INTERLEAVED = 16
_COLUMN = 48
_WIDTH = 120
#: The phases of a strike that are worth telling, in the order in which they come.
_PHASES = ("fired", "seen", "act", "landed", "missed", "healed", "unhealed")


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


def interleaving(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return accesses in their order, each in the column of its rank, or of its thread where threads took part."""
    threads = sorted({(int(e["rank"]), str(e.get("seq", "main"))) for e in events})
    lines = ["".join(_column(rank, thread).ljust(_COLUMN) for rank, thread in threads).rstrip()]
    for event in events[:_INTERLEAVED]:
        column = threads.index((int(event["rank"]), str(event.get("seq", "main"))))
        lines.append((" " * _COLUMN * column + access_words(event)).rstrip())
    if len(events) > _INTERLEAVED:
        lines.append(f"... {len(events) - _INTERLEAVED} more")
    return lines


def _column(rank: int, thread: str) -> str:
    return f"rank {rank}" if thread == "main" else f"rank {rank} {thread}"


def access_words(event: Mapping[str, Any]) -> str:
    """Say a read or write of shared storage in few words: its turn, what it did by which operation, its step."""
    op = str(event.get("op", ""))
    verb = {"r": "reads in", "w": "writes in", "rw": "updates in"}.get(str(event.get("mode", "")), "")
    number = event.get("turn", event.get("pick"))
    turn = f"{number:>3}" if isinstance(number, int) else ""
    step = f"(step {event['step']})" if "step" in event else ""
    return " ".join(word for word in (turn, verb, op.split(".")[0], str(event.get("site", "")), step) if word)


def _strikes(history: History) -> list[str]:
    """Return one line a phase of each strike that somebody saw, without the same line twice."""
    told = [_Phase(e["attempt"], e["strike"], e["phase"], e["rank"], _witness(e)) for e in history.seen("strike")]
    for (attempt, rank), lived in sorted(history.ranks.items()):
        told += [
            _Phase(attempt, e["strike"], e["phase"], rank, f" at step {e['step']}")
            for e in lived.of_kind("strike")
            if e["phase"] in _PHASES
        ]
    told.sort(key=lambda one: (one.attempt, one.strike, _PHASES.index(one.phase)))
    return list(dict.fromkeys(f"strike {one.strike} {one.phase}: rank {one.rank}{one.more}" for one in told))


class _Phase(NamedTuple):
    """A phase of a strike on a rank, with a clause more."""

    attempt: int
    strike: int
    phase: str
    rank: int
    more: str


def _witness(event: StrikeOutcomeEvent) -> str:
    return f", seen by {event['witness']}" if event.get("witness") else ""


def _points(history: History, attempt: int, finding: Mapping[str, Any] | None) -> list[str]:
    """Return the last events of each rank's main thread up to the finding's step: points, exceptions, its report."""
    until = finding["step"] if finding and finding["step"] else None
    lines = []
    for lived in history.attempt(attempt):
        events = [e for e in lived.events if e["kind"] == "point" or e["kind"] == "raised" or e["kind"] == "report"]
        own = [e for e in events if e["seq"] == "main"]
        shown = [e for e in own if until is None or e["step"] <= until][-_EVENTS:]
        lines += [f"rank {lived.rank}  step {e['step']}  {_event_words(e)}" for e in shown]
    return lines


def _event_words(event: PointEvent | RaisedEvent | ReportEvent) -> str:
    if event["kind"] == "point":
        visit = f" (visit {event['visit']})" if event["visit"] != 1 else ""
        detail = event.get("op") or event.get("path") or ""
        return f"{event['point']}{f' {detail}' if detail else ''}{visit}"
    verb = "raised" if event["kind"] == "raised" else "reported"
    if event["kind"] == "report" and not event["type"]:
        return f"{verb} exit code {event['code']}"
    text = next(iter(event["message"].splitlines()), "")
    return f"{verb} {event['type']}: {text}"[:_WIDTH]
