"""A small drawing of a run: a line of steps for each rank, with a mark for how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from breakrank.analysis.error_words import cause
from breakrank.history.reader import History, RankHistory, signal_name
from breakrank_agent.protocol.events import ReportEvent

#: The most steps of a rank that are drawn: the last ones.
_STEPS = 8
#: The bars of a chart, and how many of them: one a step, the last ones.
_BARS = "▁▂▃▄▅▆▇█"
_CHART = 60


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
    started = max((e["step"] for e in lived.events), default=0)
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
    strikes = [e for e in history.seen("strike") if e["attempt"] == lived.attempt]
    return any(e["rank"] == lived.rank and e["phase"] in ("landed", "act") for e in strikes)


def _report(event: ReportEvent) -> str:
    """Say what a rank reported, on one line."""
    if event["type"]:
        said = cause(event["message"])
        return f"{event['type']}: {said[:100]}" if said else event["type"]
    return f"left with exit code {event['code']}"


def last_place(lived: RankHistory) -> str:
    """Return ` in collective at step 3`: the last point that the rank's main thread entered."""
    points = [e for e in lived.of_kind("point") if e["seq"] == "main"]
    if not points:
        return ""
    what = points[-1].get("op") or points[-1]["point"]
    return f" in {what} at step {points[-1]['step']}"


def draw_growth(history: History, verdict: Mapping[str, Any]) -> list[str]:
    """Return a chart of what grows, at the end of each step, for the first leak found; nothing if none was."""
    leaks = [f for f in verdict["findings"] if f["cause"] in ("leak", "native leak")]
    if not leaks:
        return []
    finding = leaks[0]
    drawn = [(lived.rank, *_grown(lived, finding["evidence"])) for lived in history.attempt(finding["attempt"])]
    shown = [value for _, values, _ in drawn for value in values[-_CHART:]]
    span = (min(shown, default=0), max(shown, default=0))
    lines = [
        f"rank {rank}  {_bars(values, span)}  {_amount(values[0], unit)} to {_amount(values[-1], unit)}"
        for rank, values, unit in drawn
        if values
    ]
    return lines + [_limit_words(limit) for limit in finding["evidence"].get("limits", ())]


def _grown(lived: RankHistory, evidence: Mapping[str, Any]) -> tuple[list[int], str]:
    """Return by step the bytes of the C heap, or of tensors if these grow, or how many there are of what grows."""
    heap = [int(e["bytes"]) for e in lived.of_kind("heap")]
    if heap:
        return heap, "bytes"
    meters = {grown["meter"] for grown in evidence["grown"]}
    if "tensor" in meters:
        return [int(e.get("bytes", 0)) for e in lived.of_kind("census")], "bytes"
    first = evidence["grown"][0]
    named = {name: first[name] for name in ("meter", "site", "function")}
    counts = []
    for event in lived.of_kind("census"):
        lines = [line for line in event["lines"] if named.items() <= line.items()]
        counts.append(sum(line["bytes" if first["meter"] == "object" else "count"] for line in lines))
    return counts, "bytes" if first["meter"] == "object" else first["meter"]


def _bars(values: Sequence[int], span: tuple[int, int]) -> str:
    """Return a bar for each of the last values; the lowest and the highest stand for the two ends of `span`."""
    least, most = span
    return "".join(_BARS[(len(_BARS) - 1) * (value - least) // max(1, most - least)] for value in values[-_CHART:])


def _amount(value: int, unit: str) -> str:
    """Say a number of bytes, or of something else."""
    return size_words(value) if unit == "bytes" else f"{value} ({unit})"


def size_words(size: float) -> str:
    """Say a number of bytes, such as `4.0 KiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _limit_words(limit: Mapping[str, Any]) -> str:
    """Say when a limit is reached at this rate."""
    memory = limit["of"] == "bytes"
    what = f"the {size_words(limit['limit'])} of the machine" if memory else f"{limit['limit']:,} descriptors"
    return f"at this rate {what} are reached at step {limit['step']:,}, {_time_words(limit['seconds'])} from the end"


def _time_words(seconds: float) -> str:
    """Say a time in the unit that suits it."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"
