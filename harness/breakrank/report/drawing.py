"""A small drawing of a run: a line of steps for each rank, with a mark for how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from breakrank.history import History, RankHistory, signal_name
from breakrank_agent.history import Event

#: How many steps of a rank are drawn: the last ones.
_STEPS = 8


def draw(history: History, verdict: Mapping[str, Any]) -> list[str]:
    """Return the drawing: every attempt, if there were several, and the ranks of each."""
    lines = []
    several = len(history.attempts) > 1
    for attempt in history.attempts:
        if several:
            lines.append(f"attempt {attempt}")
        ranks = history.attempt(attempt)
        steps = {lived.rank: _steps(lived) for lived in ranks}
        width = max((len(text) for text in steps.values()), default=0)
        for lived in ranks:
            mark, words = _end(lived, history)
            lines.append(f"rank {lived.rank}  {steps[lived.rank] + mark:<{width + 1}}  {words}".rstrip())
    return lines


def _steps(lived: RankHistory) -> str:
    """Return the steps that the rank finished, and the one that it was in, as `1 2 3`."""
    finished = sorted({int(e["step"]) for e in lived.points("step")})
    started = max((int(e["step"]) for e in lived.events if isinstance(e.get("step"), int)), default=0)
    if not lived.ended_well and started > (finished[-1] if finished else 0):
        finished.append(started)
    shown = [str(step) for step in finished[-_STEPS:]] or ["0"]
    return " ".join((["..."] if len(finished) > _STEPS else []) + shown)


def _end(lived: RankHistory, history: History) -> tuple[str, str]:
    """Return the mark of a rank's end and what it means."""
    if lived.ended_well:
        return "✓", "ended well"
    if lived.report is not None:
        return "!", _report(lived.report)
    place = last_place(lived)
    if lived.ended_by_us:
        return "…", f"was ended by Breakrank{place}"
    if lived.status is None:
        return "…", f"never ended{place}"
    if lived.status < 0:
        struck = " by the injector" if _struck(lived, history) else ""
        return "✗", f"{signal_name(-lived.status)}{struck}{place}"
    return "✗", f"exit code {lived.status}{place}"


def _struck(lived: RankHistory, history: History) -> bool:
    """Return whether a strike landed on this rank of this attempt."""
    strikes = [e for e in history.conductor if e["kind"] == "strike" and e.get("attempt", 0) == lived.attempt]
    return any(e.get("rank") == lived.rank and e.get("phase") in ("landed", "act") for e in strikes)


def _report(event: Event) -> str:
    """Say what a rank reported, on one line."""
    if event.get("type"):
        message = next(iter(str(event.get("message", "")).splitlines()), "")
        return f"{event['type']}: {message[:100]}"
    return f"left with exit code {event.get('code')}"


def last_place(lived: RankHistory) -> str:
    """Return ` in collective at step 3`: the last point that the rank's main thread entered."""
    points = [e for e in lived.events if e["kind"] == "point" and e.get("seq", "main") == "main"]
    if not points:
        return ""
    what = points[-1].get("op") or points[-1]["point"]
    return f" in {what} at step {points[-1]['step']}"
