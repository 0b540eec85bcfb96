"""The digest of a run: equal plans on equal software give equal ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

from breakrank.analysis.endings import acted, classify
from breakrank.analysis.moments import in_order
from breakrank.history.reader import History, RankHistory, signal_name
from breakrank.verdict import Ended
from breakrank_agent.protocol.clock import MAIN
from breakrank_agent.protocol.events import RankLine, StrikeEvent

#: The fields of each kind of event that count in a sequence: never times, pids, ports, addresses or line numbers.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "rank": ("slot", "world"),
    "point": ("step", "point", "visit", "op", "group", "shapes", "dtype", "path"),
    "payload": ("step", "of", "indices", "samples", "batch", "params", "path", "file", "done"),
    "access": ("step", "op", "mode", "key", "lo", "hi", "turn", "pick"),
    "sync": ("step", "do", "key", "turn", "pick"),
    "strike": ("step", "strike"),
}
#: The fields that do not count for a thread at a pace of its own: the main thread's progress, and what it found there.
_PACE = ("step", "visit", "done", "params", "file")
#: The beginnings of the names of threads: of the program's, and of those that a framework started.
_THREADS = ("thread-", "other-")
#: One coordinate: the event's kind and the fields that count.
Coordinate = dict[str, Any]
#: The coordinates of one sequence (the main thread, a helper thread, a loader worker) of one rank of one attempt.
Sequences = dict[tuple[int, int, str], list[Coordinate]]


def digest(history: History) -> str:
    """Return 32 hexadecimal digits over every rank's sequences and ends."""
    lines = [json.dumps([*key, line], sort_keys=True) for key, line in sorted(sequences(history).items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


class Difference(NamedTuple):
    """The first coordinate in which two runs part, and the line that says so."""

    attempt: int
    step: int
    rank: int
    words: str


def explain_difference(a: History, b: History, results: bool = False) -> str:
    """Name in one line the first coordinate in which two runs part; empty if their digests are equal."""
    difference = first_difference(a, b, results)
    return difference.words if difference is not None else ""


def first_difference(a: History, b: History, results: bool) -> Difference | None:
    """Return where two runs part; None if their digests are equal.

    Of `results` alone, who came before whom does not count: a thread that nobody schedules may be early or late, and
    the ranks still compute the same; whoever is first makes the folder that all need. Nor does it count which steps
    were digested: those are compared that both runs have digested. Nor do the names of threads, which depend on the
    evidence that a run records: what all threads of a rank beside the main one did is compared.
    """
    bare = [history.without("access", "sync") if results else history for history in (a, b)]
    one, other = map(sequences, bare)
    if results and _name_threads_otherwise(one, other):
        one, other = _threads_as_one(one), _threads_as_one(other)
    for key in one.keys() & other.keys() if results else ():
        one[key], other[key] = _as_far_as_both_digested(one[key], other[key])
    parted = [_parting(key, one.get(key), other.get(key)) for key in sorted({*one, *other})]
    # At one step of a rank the names of the sequences decide, and not the words.
    return min((p for p in parted if p is not None), key=lambda p: p[:3], default=None)


def _name_threads_otherwise(one: Sequences, other: Sequences) -> bool:
    """Return whether both runs have threads beside the main ones, by names that are not the same."""
    named = [{key for key in found if key[2].startswith(_THREADS)} for found in (one, other)]
    return all(named) and named[0] != named[1]


def _threads_as_one(found: Sequences) -> Sequences:
    """Return the sequences with those of the threads of each rank, beside the main one, as a single one in order."""
    joined: Sequences = {}
    for (attempt, rank, name), sequence in found.items():
        of_thread = name.startswith(_THREADS)
        joined.setdefault((attempt, rank, _THREADS[0] if of_thread else name), []).extend(sequence)
    for (_, _, name), sequence in joined.items():
        if name == _THREADS[0]:
            sequence.sort(key=lambda coordinate: json.dumps(coordinate, sort_keys=True))
    return joined


def sequences(history: History) -> Sequences:
    """Return the coordinates of every sequence, cut where they may depend on when a strike was noticed.

    In an attempt that did not end well on every rank, let K be the least number of collectives that one of the ranks
    that did not end well had entered, or, where a rank was struck, that it had entered when it was struck first. Until
    its K-th collective no rank can have noticed anything; what it does after that depends on timing and is cut, and so
    are helper threads without collectives, which run at a pace of their own. A rank that was struck is followed to its
    first strike, and the first coordinates of every strike that fired stand with its end. A launcher ends the other
    ranks of a failed group, perhaps before they come to their K-th collective: K is then one less than the first rank
    to fail had entered.

    A helper thread that no schedule moves runs at a pace of its own, perhaps until it is told to stop. Its events count
    without the progress of the main thread, and equal ones count once, in the order of the first occurrences. Its
    collectives are agreed upon with other ranks, and count as often as they were issued.
    """
    found: Sequences = {}
    for attempt in history.attempts:
        ends = classify(history, attempt)
        keys = _names_of_keys(history, attempt)
        limit = _common_collectives(history, attempt, ends)
        scheduled = {lived.rank for lived in history.attempt(attempt) if any("pick" in e for e in lived.events)}
        contested = set() if scheduled else _contested(history, attempt)
        for lived in history.attempt(attempt):
            events = _before_the_cut(lived, limit)
            for event in events:
                if event["kind"] in _FIELDS and _counts(event):
                    sequence = found.setdefault((attempt, lived.rank, event["seq"]), [])
                    _add(sequence, event, _coordinate(event, keys, contested), lived.rank in scheduled)
            main = found.setdefault((attempt, lived.rank, "main"), [])
            main.append({**_end(history, lived, ends[lived.rank]), "strikes": _first_strikes(lived)})
    return found


def _add(sequence: list[Coordinate], event: RankLine, coordinate: Coordinate, scheduled: bool) -> None:
    """Add what counts of an event to its sequence."""
    if event["seq"] != MAIN and not (scheduled and event["seq"].startswith("thread-")):
        coordinate = {name: value for name, value in coordinate.items() if name not in _PACE}
        if coordinate in sequence and not _is_collective(event):
            return
    sequence.append(coordinate)


def _common_collectives(history: History, attempt: int, ends: Mapping[int, Ended]) -> int | None:
    """Return K, or None if every rank of the attempt ended well."""
    counts = {}
    for lived in history.attempt(attempt):
        if ends[lived.rank] is not Ended.WELL:
            struck = next((i for i, e in enumerate(lived.events) if _fired(e)), len(lived.events))
            counts[lived.rank] = sum(map(_is_collective, lived.events[:struck]))
    if counts and history.seen("launcher"):
        return max(0, counts[_first_to_fail(history, attempt, ends)] - 1)
    return min(counts.values(), default=None)


def _first_to_fail(history: History, attempt: int, ends: Mapping[int, Ended]) -> int:
    """Return the rank that failed first: one that was struck, or else died, or else was the first to report."""
    failed = [lived for lived in history.attempt(attempt) if ends[lived.rank] is not Ended.WELL]
    order = (Ended.STRUCK, Ended.CRASHED, Ended.REPORTED)

    def sign(lived: RankHistory) -> tuple[bool, int]:
        end = ends[lived.rank]
        return not any(map(_fired, lived.events)), order.index(end) if end in order else len(order)

    def moment(lived: RankHistory) -> float:
        return next((float(e["t"]) for e in (lived.report, *lived.events[-1:]) if e is not None), 0.0)

    least = min(map(sign, failed))
    return in_order(history, (lived for lived in failed if sign(lived) == least), moment)[0].rank


def _counts(event: RankLine) -> bool:
    """Return whether an event is the same in each run: what was not chosen by a schedule came as it came."""
    if event["kind"] == "strike":
        return _fired(event)
    return event["kind"] not in ("access", "sync") or "turn" in event or "pick" in event


def _fired(event: RankLine) -> TypeGuard[StrikeEvent]:
    return event["kind"] == "strike" and event["phase"] == "fired"


def _is_collective(event: RankLine) -> bool:
    return bool(event["kind"] == "point" and event["point"] == "collective")


def _first_strikes(lived: RankHistory) -> dict[str, list[Any]]:
    """Return step, point and visit at which each strike fired first; a lasting one may fire again at any time."""
    first: dict[str, list[Any]] = {}
    for event in filter(_fired, lived.events):
        first.setdefault(str(event["strike"]), [event["step"], event.get("point"), event.get("visit")])
    return first


def _before_the_cut(lived: RankHistory, limit: int | None) -> tuple[RankLine, ...]:
    """Return the rank's events up to its K-th collective; of one that was struck, at least up to its first strike."""
    if limit is None:
        return lived.events
    collectives = [i for i, e in enumerate(lived.events) if _is_collective(e)]
    strikes = [i for i, e in enumerate(lived.events) if _fired(e)]
    stops = [0, *(i + 1 for i in collectives[:limit]), *(i + 1 for i in strikes[:1])]
    followed = {"main", *(lived.events[i]["seq"] for i in collectives)}
    return tuple(e for e in lived.events[: max(stops)] if e["seq"] in followed)


def _names_of_keys(history: History, attempt: int) -> dict[str, int]:
    """Number the keys of what ranks share in the order of their first use, as their own names hold inodes."""
    ordered = [
        e for one in history.attempt(attempt) for e in one.events if e["kind"] == "access" or e["kind"] == "sync"
    ]
    took = [(turn, e["key"]) for e in ordered if (turn := e.get("turn")) is not None]
    names: dict[str, int] = {}
    for _, key in sorted(took, key=lambda one: one[0]):
        names.setdefault(key, len(names))
    return names


def _contested(history: History, attempt: int) -> set[str]:
    """Return the files that several ranks write: if nobody schedules that, what lies there is of whoever was last."""
    writers: dict[str, set[int]] = {}
    for lived in history.attempt(attempt):
        for event in lived.points("write"):
            writers.setdefault(str(event.get("path")), set()).add(lived.rank)
    return {path for path, ranks in writers.items() if len(ranks) > 1}


def _coordinate(event: RankLine, keys: Mapping[str, int], contested: Collection[str]) -> Coordinate:
    """Return what counts of an event."""
    fields: Mapping[str, Any] = event
    kept = {name: fields[name] for name in _FIELDS[event["kind"]] if fields.get(name) is not None}
    if kept.get("of") == "save" and kept.get("path") in contested:
        kept.pop("file", None)
    if str(kept.get("path", "")).startswith(("/", "..")):
        del kept["path"]
    if "key" in kept:
        # The key of a thing that belongs to one process is a number, which differs from run to run.
        kept["key"] = keys.get(kept["key"], kept["key"] if ":" in kept["key"] or "@" in kept["key"] else None)
    return {"kind": event["kind"], **kept}


def _end(history: History, lived: RankHistory, end: Ended) -> Coordinate:
    """Return the end as a coordinate: its class, and the parameters and result of a rank that ended by itself."""
    ended: Coordinate = {"kind": "end", "class": _class(history, lived, end)}
    raced = history.seen("launcher") and end is not Ended.WELL
    if end in (Ended.WELL, Ended.REPORTED) and lived.end is not None and not raced:
        ended.update(params=lived.end.get("params"), state=lived.end.get("state"))
        # There is no other result if nothing trains.
        ended.update({"modules": lived.end["modules"]} if "modules" in lived.end else {})
    return ended


def _class(history: History, lived: RankHistory, end: Ended) -> str:
    """Return how a rank ended, in words that do not change from run to run."""
    if end is Ended.WELL:
        return "well"
    if history.seen("launcher") and end in (Ended.REPORTED, Ended.COLLATERAL):
        # A rank's report races with its launcher, which ends it: either may come first.
        return "failed"
    if end is Ended.REPORTED:
        report = lived.report
        if report is None:
            return f"exit code {lived.status}"
        return report["type"] or f"exit code {report['code']}"
    if end is Ended.CRASHED:
        return str(lived.died_of())
    if end is Ended.STRUCK:
        status = acted(history, lived)
        return "struck" if status is None else f"struck: {signal_name(-status) if status < 0 else status}"
    return end.name.lower()


def _parting(
    key: tuple[int, int, str], one: list[Coordinate] | None, other: list[Coordinate] | None
) -> Difference | None:
    """Return where in logical time two sequences part; None if they are equal."""
    attempt, rank, sequence = key
    where = f"attempt {attempt}, rank {rank}" + (f", {sequence}" if sequence != "main" else "")
    for index, (left, right) in enumerate(_side_by_side(one or [], other or [])):
        if left != right:
            step = max(int(c.get("step", 0)) for c in [*(one or [])[: index + 1], *(other or [])[: index + 1]])
            return Difference(attempt, step, rank, f"{where}, step {step}: {_words(left, right)}")
    return None


def _as_far_as_both_digested(
    one: list[Coordinate], other: list[Coordinate]
) -> tuple[list[Coordinate], list[Coordinate]]:
    """Return two sequences without their writes of files, and the digests of steps that only one of them has."""
    both = _digested(one) & _digested(other)
    return _without_digests(one, both), _without_digests(other, both)


def _digested(sequence: list[Coordinate]) -> set[int]:
    return {c["step"] for c in sequence if c["kind"] == "payload" and ("params" in c or "batch" in c) and "step" in c}


def _without_digests(sequence: list[Coordinate], kept: set[int]) -> list[Coordinate]:
    found = []
    for c in sequence:
        if c.get("point") == "write":
            continue
        if c["kind"] != "payload" or c.get("step") in kept or c["of"] not in ("step", "load"):
            found.append(c)
        elif c["of"] == "load":
            found.append({name: value for name, value in c.items() if name not in ("batch", "samples")})
    return found


def _side_by_side(
    one: list[Coordinate], other: list[Coordinate]
) -> Iterator[tuple[Coordinate | None, Coordinate | None]]:
    """Yield the coordinates of two sequences in pairs; None where one is over."""
    for index in range(max(len(one), len(other))):
        yield (one[index] if index < len(one) else None), (other[index] if index < len(other) else None)


def _words(left: Coordinate | None, right: Coordinate | None) -> str:
    """Say what differs between two coordinates."""
    if left is None or right is None or _name(left) != _name(right):
        return f"{_name(left)} in one run, {_name(right)} in the other"
    names = [n for n in {**left, **right} if left.get(n) != right.get(n)]
    return f"{names[0]} of {_name(left)} is {left.get(names[0])} in one run, {right.get(names[0])} in the other"


def _name(coordinate: Coordinate | None) -> str:
    """Name a coordinate without its values."""
    if coordinate is None:
        return "nothing more"
    kind = coordinate["kind"]
    if kind == "point":
        visit = f" (visit {coordinate['visit']})" if coordinate.get("visit", 1) > 1 else ""
        return f"{coordinate['point']}{visit}"
    if kind == "strike":
        return f"strike {coordinate['strike']}"
    named = {"payload": "of", "access": "op"}.get(kind)
    return f"the {kind} of {coordinate[named]}" if named else f"the {kind}"
