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
#: The phases of a strike that are worth telling.
_PHASES = ("fired", "seen", "act", "landed", "missed", "healed", "unhealed")


def telling_events(history: History, verdict: Mapping[str, Any], width: int = 0) -> list[str]:
    """Return the events that show the first finding; without a finding, the last ones of the last attempt.

    They stand in the order of time, strikes among them, and below a heading for each attempt where there were several.
    Accesses are laid out in `width` cells, if that is not 0.
    """
    finding = verdict["findings"][0] if verdict["findings"] else None
    if finding is not None:
        evidence = finding["evidence"].get("events")
        if evidence and all(isinstance(e, Mapping) and "rank" in e for e in evidence):
            return interleaving(evidence, width)
    attempts = history.attempts
    last = finding["attempt"] if finding else (attempts[-1] if attempts else 0)
    lines: list[str] = []
    for attempt in attempts or (0,):
        told = [*_strikes(history, attempt), *(_points(history, attempt, finding) if attempt == last else ())]
        shown = list(dict.fromkeys(one.words for one in sorted(told, key=lambda one: one.t)))
        lines += [f"attempt {attempt}", *(f"  {line}" for line in shown)] if shown and len(attempts) > 1 else shown
    return lines


class _Told(NamedTuple):
    """A line about an event, and when that was."""

    t: float
    words: str


def interleaving(events: Sequence[Mapping[str, Any]], width: int = 0) -> list[str]:
    """Return accesses in their order, each in the column of its rank, or of its thread where threads took part.

    In `width` cells, unless that is 0, columns are closer: an access is a line of its own, and may reach into the next.
    """
    threads = sorted({(int(e["rank"]), str(e.get("seq", "main"))) for e in events})
    names = [_column(rank, thread) for rank, thread in threads]
    told = [access_words(event) for event in events[:_INTERLEAVED]]
    apart = _COLUMN
    if width and len(names) > 1:
        left = width - max(len(words) for words in (*told, names[-1]))
        apart = min(_COLUMN, max(left // (len(names) - 1), *(len(name) + 2 for name in names)))
    lines = ["".join(name.ljust(apart) for name in names).rstrip()]
    for event, words in zip(events, told, strict=False):
        column = threads.index((int(event["rank"]), str(event.get("seq", "main"))))
        lines.append((" " * apart * column + words).rstrip())
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


def _strikes(history: History, attempt: int) -> list[_Told]:
    """Return a line for each phase of the strikes of an attempt that somebody saw."""
    told = [
        _Told(float(e["t"]), f"strike {e['strike']} {e['phase']}: rank {e['rank']}{_witness(e)}")
        for e in history.seen("strike")
        if e["attempt"] == attempt
    ]
    for lived in history.attempt(attempt):
        for e in lived.of_kind("strike"):
            if e["phase"] in _PHASES:
                words = f"strike {e['strike']} {e['phase']}: rank {lived.rank} at step {e['step']}"
                told.append(_Told(float(e["t"]), words))
    return told


def _witness(event: StrikeOutcomeEvent) -> str:
    return f", seen by {event['witness']}" if event.get("witness") else ""


def _points(history: History, attempt: int, finding: Mapping[str, Any] | None) -> list[_Told]:
    """Return the last events of each rank's main thread up to the finding's step: points, exceptions, its report."""
    until = finding["step"] if finding and finding["step"] else None
    told = []
    for lived in history.attempt(attempt):
        events = [e for e in lived.events if e["kind"] == "point" or e["kind"] == "raised" or e["kind"] == "report"]
        own = [e for e in events if e["seq"] == "main"]
        shown = [e for e in own if until is None or e["step"] <= until][-_EVENTS:]
        told += [_Told(float(e["t"]), f"rank {lived.rank}  step {e['step']}  {_event_words(e)}") for e in shown]
    return told


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
