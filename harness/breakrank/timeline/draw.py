"""A history drawn: each thread of each rank is a lane, and calls of several ranks that belong together are joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from breakrank.files.bounded import plain
from breakrank.history.output_times import Printed
from breakrank.history.reader import History, RankHistory, signal_name
from breakrank.timeline.meetings import join
from breakrank.timeline.model import MAIN, NEVER, Bar, Lane, Link, Mark, Picture
from breakrank.timeline.thread import Thread, name_of, time_of
from breakrank_agent.protocol.events import ConductorLine

#: The lines that each (attempt, rank) printed, by the name of the stream.
Output = Mapping[tuple[int, int], Mapping[str, Sequence[Printed]]]

#: The most lanes of helper threads and children that one rank has; accesses may come from many.
_MOST_THREADS = 64
#: The most accesses of one finding that are looked up.
_MOST_EVIDENCE = 1000


def draw(history: History, faults: Sequence[str] = (), printed: Output | None = None) -> Picture:
    """Draw a history. `faults` are the names of the strikes' faults, in the order of the plan.

    `printed` are the lines of output whose times are known: marks on the main lane of their rank.
    """
    times = [time for event in history.conductor if (time := time_of(event, 0.0))]
    times += [time for lived in history.ranks.values() for e in lived.events[:1] if (time := time_of(e, 0.0))]
    zero, last = min(times, default=0.0), max(times, default=0.0)
    seen = _by_rank(history)
    lanes: list[Lane] = []
    threads: list[Thread] = []
    for (attempt, rank), lived in sorted(history.ranks.items()):
        told = seen.get((attempt, rank), [])
        over = [e for e in seen.get((attempt, None), []) if e["kind"] == "attempt"]
        exits = [e for e in told if e["kind"] == "exit"]
        end = min((time_of(e, last) for e in exits or over), default=last)
        drawn = _draw_rank(lived, told, end, len(lanes), zero)
        drawn[MAIN].marks += _lines((printed or {}).get((attempt, rank), {}), len(lanes))
        names = [MAIN, *(name for name in drawn if name != MAIN)]
        words = ending_words(lived)
        lanes += [Lane(attempt, rank, name_of(name), words if name == MAIN else "") for name in names]
        threads += [drawn[name] for name in names]
    bars = [bar for one in threads for bar in sorted(one.bars, key=lambda bar: (bar.start, -bar.end))]
    marks = [mark for one in threads for mark in sorted(one.marks, key=lambda mark: mark.time)]
    zero = min((zero, *(bar.start for bar in bars)), default=zero)
    last = max((last, *(bar.end for bar in bars), *(mark.time for mark in marks)), default=last)
    undrawn: dict[str, int] = {}
    for one in threads:
        for kind, count in one.undrawn.items():
            undrawn[kind] = undrawn.get(kind, 0) + count
    bars, meetings = join(history, lanes, [_named(bar, faults) for bar in bars])
    marks = [_named(mark, faults) for mark in marks]
    picture = Picture(lanes, bars, marks, meetings, zero, last, undrawn=undrawn)
    return replace(picture, waits=_waits(history, picture))


def _lines(printed: Mapping[str, Sequence[Printed]], lane: int) -> Iterator[Mark]:
    """Yield a mark for each line that a rank printed."""
    for stream, lines in printed.items():
        for line in lines:
            event = {"t": line.time, "stream": stream, "text": line.text}
            yield Mark(lane, line.time, "output", name_of(line.text), 0, event)


_Struck = TypeVar("_Struck", Bar, Mark)


def _named(one: _Struck, faults: Sequence[str]) -> _Struck:
    """Return a bar or mark of a strike with the name of its fault; any other as it is."""
    number = one.event.get("strike")
    if one.kind != "strike" or not isinstance(number, int) or number >= len(faults):
        return one
    return one._replace(name=name_of(one.name.replace(f"strike {number}", faults[number], 1)))


def _by_rank(history: History) -> dict[tuple[Any, Any], list[ConductorLine]]:
    """Return the Conductor's events by attempt and rank."""
    seen: dict[tuple[Any, Any], list[ConductorLine]] = {}
    for event in history.conductor:
        place = event.get("attempt"), event.get("rank")
        # An event of a kind that is not known may have anything there.
        if all(isinstance(one, (int, type(None))) for one in place):
            seen.setdefault(place, []).append(event)
    return seen


def _draw_rank(
    lived: RankHistory, told: Sequence[ConductorLine], end: float, first: int, zero: float
) -> dict[str, Thread]:
    """Return the threads of one rank by their names, the main one first; their lanes begin at `first`."""
    threads = {MAIN: Thread(first, seen=zero)}
    for event in lived.events:
        name = str(event.get("seq", MAIN))
        if name not in threads:
            if len(threads) > _MOST_THREADS:
                continue
            threads[name] = Thread(first + len(threads), seen=zero)
        threads[name].take(event)
    main = threads[MAIN]
    turns = {mark.turn for one in threads.values() for mark in one.marks}
    for seen in told:
        if seen["kind"] != "turn":
            _tell(main, seen, lived)
        elif seen["turn"] not in turns:
            name = name_of(f"{seen['op']} {seen['key']}")
            main.marks.append(Mark(main.lane, time_of(seen, zero), "turn", name, 0, seen, seen["turn"]))
    for name, one in threads.items():
        # The end of a helper thread is on record nowhere: it is drawn to its last event.
        one.finish(end if name == MAIN else one.seen, lived.ended_well or name != MAIN)
    return threads


def _tell(main: Thread, event: Mapping[str, Any], lived: RankHistory) -> None:
    """Show what the Conductor saw of a rank on its main lane."""
    kind, now = str(event["kind"]), time_of(event, main.seen)
    if kind == "strike" and event["phase"] != "act":
        number = int(event["strike"])
        main.marks.append(Mark(main.lane, now, "strike", f"strike {number} {event['phase']}", 0, event))
        if event["phase"] in ("healed", "unhealed"):
            main.lift(number, now)
    elif kind == "exit":
        main.marks.append(Mark(main.lane, now, "exit", ending_words(lived), 0, event))
        main.lift_all(now)
    elif kind in ("crash", "dropped", "left_out", "enforced", "held", "damaged"):
        main.marks.append(Mark(main.lane, now, kind, name_of(kind.replace("_", " ")), 0, event))


def ending_words(lived: RankHistory) -> str:
    """Say how a rank ended."""
    if lived.status is None:
        return "no end on record"
    if lived.ended_by_us:
        return "ended by Breakrank"
    if lived.status < 0:
        return f"killed by {signal_name(-lived.status)}"
    return f"exit {lived.status}"


def _waits(history: History, picture: Picture) -> dict[int, list[int]]:
    """Return the ranks that each bar waits for which never came to its end."""
    lacking: dict[tuple[int, int], list[int]] = {}
    for event in history.seen("hung"):
        for wait in event["waiting"]:
            peers = [int(peer) for peer in wait.get("lacks", event["peers"]) if peer != wait["rank"]]
            lacking[event["attempt"], wait["rank"]] = peers
    found: dict[int, list[int]] = {}
    for position, bar in enumerate(picture.bars):
        lane = picture.lanes[bar.lane]
        peers = lacking.get((lane.attempt, lane.rank), [])
        if bar.ending == NEVER and bar.kind not in ("phase", "inner") and peers:
            found[position] = peers
    return found


def links(picture: Picture, findings: Sequence[Mapping[str, Any]]) -> list[Link]:
    """Return a link for each finding whose evidence is accesses: the last one, and the one it is not ordered with."""
    found: dict[tuple[int, int], Link] = {}
    accesses = _accesses(picture)
    for finding in findings:
        evidence = finding.get("evidence", {}).get("events", ())
        if not isinstance(evidence, list) or not all(isinstance(one, dict) and "rank" in one for one in evidence):
            continue
        places = [_find(accesses, one, finding.get("attempt", 0)) for one in evidence[:_MOST_EVIDENCE]]
        known = [place for place in places if place >= 0]
        others = [place for place in known if picture.marks[place].lane != picture.marks[known[-1]].lane]
        if others:
            pair = others[-1], known[-1]
            found.setdefault(pair, Link(*pair, plain(finding.get("sentence", ""))))
    return list(found.values())


def _accesses(picture: Picture) -> dict[tuple[Any, ...], list[tuple[int, Mapping[str, Any]]]]:
    """Return the accesses by attempt, rank, thread, step and mode, each with the position of its mark."""
    found: dict[tuple[Any, ...], list[tuple[int, Mapping[str, Any]]]] = {}
    for position, mark in enumerate(picture.marks):
        if mark.kind == "access":
            lane = picture.lanes[mark.lane]
            place = (lane.attempt, lane.rank, lane.thread, mark.step, mark.event["mode"])
            found.setdefault(place, []).append((position, mark.event))
    return found


def _find(accesses: Mapping[tuple[Any, ...], Any], told: Mapping[str, Any], attempt: Any) -> int:
    """Return the position of the mark of an access that a finding tells of; -1 if it is not there."""
    wanted = {name: told[name] for name in ("op", "turn", "pick", "site") if name in told}
    place = (attempt, told["rank"], name_of(told.get("seq", MAIN)), told.get("step"), told.get("mode"))
    for position, event in accesses.get(place, ()):
        if all(event.get(name) == value for name, value in wanted.items()):
            return int(position)
    return -1


def anchors(history: History, findings: Sequence[Mapping[str, Any]]) -> set[tuple[int, int]]:
    """Return the (attempt, step) that events are kept whole of: around strikes and findings."""
    steps = {(int(f["attempt"]), int(f["step"] or 0)) for f in findings}
    for (attempt, _), lived in history.ranks.items():
        steps |= {(attempt, e["step"]) for e in lived.of_kind("strike") if e["phase"] != "armed"}
    return {(attempt, near) for attempt, step in steps for near in (step - 1, step, step + 1)}
