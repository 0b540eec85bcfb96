"""The words of a page: facts, findings, waits, stacks and output of a run, each safe to be shown anywhere."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from breakrank.analysis.wait_for import describe
from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder, plain
from breakrank.runs.provenance import MARK
from breakrank.timeline.model import Picture
from breakrank.timeline.reading import Seen
from breakrank.verdict import name_ranks

#: The most letters of a text that came from a run, and of the output of all ranks together.
_MOST_TEXT, _MOST_OUTPUT, _LEAST_OUTPUT = 100_000, 600_000, 2000
#: So many ranks that wait are drawn as a graph; its size in pixels.
_MOST_NODES, _GRAPH, _NODE = 12, 230, 21
_MOST_LINES = 64
#: The most rows of threads.
_MOST_THREADS = 400


def shown(text: str) -> str:
    """Return a text of several lines with what is not printed spelled out; of a long one, the end."""
    cut = f"… {len(text) - _MOST_TEXT} letters are left out\n" if len(text) > _MOST_TEXT else ""
    return cut + "\n".join(plain(line) for line in text[-_MOST_TEXT:].split("\n"))


def facts(seen: Seen, picture: Picture) -> list[tuple[str, list[str]]]:
    """Return what is known about a run in lines, each group under its name."""
    verdict = seen.verdict
    rows: list[tuple[str, list[str]]] = []
    blame = verdict.get("blame") or {}
    if blame:
        ranks = blame.get("ranks", [])
        whom = f"{name_ranks(ranks)}: " if ranks else ""
        rows.append(("blame", [f"{whom}{blame.get('reason', '')}"]))
    if verdict.get("record"):
        kept = "as recorded" if verdict.get("as_recorded") else f"NOT as recorded: on record is {verdict['record']}"
        rows.append(("record", [kept]))
    rows.append(("strikes", _strikes(seen, picture)))
    for name in ("reported", "crashed", "void"):
        if verdict.get(name):
            rows.append((name, list(verdict[name])[:_MOST_LINES]))
    return [(name, [plain(line) for line in lines]) for name, lines in rows if lines]


def made(seen: Seen, picture: Picture) -> list[tuple[str, str]]:
    """Return what a run was made with and lies in, and the time of day at the picture's zero."""
    rows = [("digest", seen.verdict.get("digest")), ("0 ms is", _begun(seen, picture)), ("files", str(seen.folder))]
    rows += [(name, value) for name, value in seen.meta.items() if name != MARK and isinstance(value, (str, int))]
    return [(plain(name), plain(value)) for name, value in rows if value]


def _begun(seen: Seen, picture: Picture) -> str:
    """Return the time of day at the picture's zero, if the run has noted both clocks."""
    clock = seen.meta.get("clock")
    began = clock.get("began") if isinstance(clock, dict) else None
    if not isinstance(began, dict) or not picture.zero:
        return ""
    monotonic, unix = (_number(began.get(name)) for name in ("monotonic", "unix"))
    unix += picture.zero - monotonic
    if not monotonic or not 0 < unix < 1 << 34:
        return ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix)) + f".{int(unix % 1 * 1000):03d}Z"


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def _strikes(seen: Seen, picture: Picture) -> list[str]:
    """Return a line a strike: what it is, and when and where each of its phases was seen."""
    told: dict[int, list[str]] = {}
    for mark in sorted((mark for mark in picture.marks if mark.kind == "strike"), key=lambda mark: mark.time):
        lane, event = picture.lanes[mark.lane], mark.event
        more = "".join(f" ({event[name]})" for name in ("witness", "why") if event.get(name))
        when = f"{event['phase']} at {(mark.time - picture.zero) * 1e3:.1f} ms on rank {lane.rank}{more}"
        told.setdefault(int(event["strike"]), []).append(when)
    planned = seen.plan.strikes if seen.plan is not None else ()
    lines = []
    for number in sorted({*range(len(planned)), *told}):
        words = planned[number].words() if number < len(planned) else "not in the plan"
        phases = told.get(number, [])
        more = f" and {len(phases) - 8} more" if len(phases) > 8 else ""
        lines.append(f"strike {number}: {words}: {'; '.join(phases[:8]) or 'never armed'}{more}")
    return lines[:_MOST_LINES]


def findings(verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the findings, each with its places and evidence."""
    found = [*verdict.get("findings", ()), *verdict.get("also", ())]
    return [
        {
            "title": plain(f"{finding['oracle']}: {finding['cause']}"),
            "sentence": plain(finding.get("sentence", "")),
            "places": [plain(place) for place in finding.get("places", ())],
            "evidence": shown(json.dumps(finding["evidence"], indent=1, ensure_ascii=False))
            if finding.get("evidence")
            else "",
        }
        for finding in found[:_MOST_LINES]
        if isinstance(finding, Mapping)
    ]


def notes(seen: Seen) -> list[str]:
    """Return the remarks of a verdict, and the oracles of the plan that could not judge."""
    verdict = seen.verdict
    asked = seen.plan.oracles if seen.plan is not None else ()
    lines = [f"note: {text}" for text in verdict.get("notes", ())]
    lines += [f"accused: {text}" for text in verdict.get("accused", ())]
    abstained = verdict.get("abstained", {})
    lines += [f"{oracle} abstained: {why}" for oracle, why in abstained.items() if oracle in asked]
    return [plain(line) for line in lines[:_MOST_LINES]]


def stacks(seen: Seen) -> list[tuple[str, str]]:
    """Return the stacks of the ranks that were ended, and of those that died."""
    several = len(seen.history.attempts) > 1
    found = [(event, "") for event in seen.history.seen("stacks")]
    found += [(event, ", which died") for event in seen.history.seen("crash")]  # type: ignore[misc]
    rows = []
    for event, more in found[: 2 * _MOST_LINES]:
        where = f" in attempt {event['attempt']}" if several else ""
        rows.append((f"rank {event['rank']}{where}{more}", shown(event["text"])))
    return rows


def outputs(seen: Seen, ranks: Iterable[int]) -> list[tuple[str, str]]:
    """Return the end of what the launcher and the ranks wrote, by its name; of many, less of each."""
    place, wanted = Folder(seen.folder), set(ranks)
    named, several = [("launcher", "launcher")], len(seen.history.attempts) > 1
    for attempt, rank in sorted(seen.history.ranks):
        if rank in wanted:
            where = f" in attempt {attempt}" if several else ""
            named.append((f"rank {rank}{where}", f"attempt-{attempt}/rank-{rank}"))
    size = max(_LEAST_OUTPUT, min(_MOST_TEXT, _MOST_OUTPUT // (2 * len(named))))
    rows = []
    for who, name in named:
        for stream, ending in (("stdout", "out"), ("stderr", "err")):
            try:
                text = place.tail(f"{name}.{ending}", size).decode(errors="replace")
            except BreakrankError as error:
                text = f"({error})"
            if text.strip():
                rows.append((f"{who}: {stream}", shown(text)))
    return rows


def waits(seen: Seen) -> dict[str, Any]:
    """Return who waits for whom: a line a rank, and a graph where there are few."""
    hung = seen.history.seen("hung")
    if not hung:
        return {"lines": [], "nodes": []}
    event = hung[-1]
    edges: list[tuple[int, int]] = []
    places: dict[str, list[int]] = {}
    for one in event["waiting"]:
        peers = [peer for peer in one.get("lacks", event["peers"]) if peer != one["rank"]]
        edges += [(one["rank"], peer) for peer in peers]
        whom = f" for {name_ranks(peers[:8])}" if peers else ""
        would = f"; would have raised after {one['timeout_s']:g} s" if one.get("timeout_s") else ""
        said = f"in {describe(one)} at step {one['step']}{whom}{would}"
        places.setdefault(said, []).append(one["rank"])
    lines = [plain(f"{_some(ranks)} wait{'s' * (len(ranks) == 1)} {said}") for said, ranks in places.items()]
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    if event["shown_by"]:
        more.append(plain(f"{name_ranks(event['peers'])} {event['shown_by']}"))
    return {"lines": [*lines[:_MOST_LINES], *more], **_graph(edges, seen.verdict)}


_PROOFS = {
    "threads": "each of their threads stood still in {looks} looks, one after the other",
    "network": "nothing arrives on a way that they need",
    "rendezvous": "their rendezvous lacks a rank that never comes",
    "schedule": "the schedule has no rank left that can move",
    "deadline": "this is not proven: the deadline has passed",
    "steps": "a rank made ten times the steps of the job",
}


def evidence(seen: Seen) -> dict[str, Any]:
    """Return what was looked at to prove a hang: the proof in words, and a row for threads of a rank that are alike."""
    hung = seen.history.seen("hung")
    told = hung[-1].get("evidence") if hung else None
    if told is None:
        return {"by": "", "threads": []}
    threads = [
        (f"rank {one['rank']}", plain(one["thread"]), one["count"], plain(one["does"]), plain(one["call"]))
        for one in told["threads"][:_MOST_THREADS]
    ]
    return {"by": _PROOFS[told["by"]].format(looks=told["looks"]), "threads": threads}


def _some(ranks: Sequence[int]) -> str:
    """Name ranks; of many the first ones."""
    return f"{name_ranks(ranks[:8])} and {len(ranks) - 8} more" if len(ranks) > 9 else name_ranks(ranks)


def _graph(edges: Sequence[tuple[int, int]], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return the places of ranks in a circle, and arrows between those that wait for each other."""
    ranks = sorted({rank for edge in edges for rank in edge})
    if not 2 <= len(ranks) <= _MOST_NODES:
        return {"nodes": []}
    blamed = (verdict.get("blame") or {}).get("ranks", [])
    middle, radius = _GRAPH / 2, _GRAPH / 2 - _NODE - 6
    turn = 2 * math.pi / len(ranks)
    # Two ranks lie side by side, more of them begin at the top.
    begin = math.pi if len(ranks) == 2 else -math.pi / 2
    places = {
        rank: (middle + radius * math.cos(begin + n * turn), middle + radius * math.sin(begin + n * turn))
        for n, rank in enumerate(ranks)
    }
    nodes = [
        {"name": rank, "x": round(x, 1), "y": round(y, 1), "blamed": rank in blamed} for rank, (x, y) in places.items()
    ]
    high = 4 * _NODE if len(ranks) == 2 else _GRAPH
    arrows = [_arrow(places[one], places[other]) for one, other in edges]
    return {"size": _GRAPH, "high": high, "nodes": nodes, "arrows": arrows}


def _arrow(one: tuple[float, float], other: tuple[float, float]) -> str:
    """Return the path of a bent arrow between two circles, so that arrows both ways are apart."""
    dx, dy = other[0] - one[0], other[1] - one[1]
    size = math.hypot(dx, dy) or 1.0
    bend = (one[0] + other[0]) / 2 - dy * 0.16, (one[1] + other[1]) / 2 + dx * 0.16
    ends = []
    for x, y in (one, other):
        toward = math.hypot(bend[0] - x, bend[1] - y) or 1.0
        share = min(1.0, (_NODE + 3) / toward) if size else 0.0
        ends.append((x + (bend[0] - x) * share, y + (bend[1] - y) * share))
    (x1, y1), (x2, y2) = ends
    return f"M{x1:.1f} {y1:.1f}Q{bend[0]:.1f} {bend[1]:.1f} {x2:.1f} {y2:.1f}"
