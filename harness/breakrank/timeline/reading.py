"""A run directory, read piece by piece for a picture: what is missing or damaged is said, and the rest is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder
from breakrank.history.output_times import Printed, read_lines
from breakrank.history.rank_file import read_chronicle
from breakrank.history.reader import History, RankHistory, read_history
from breakrank.runs.provenance import read_meta
from breakrank.runs.saved_run import SavedRun, judge_saved, load_plan, load_run, load_verdict, why_unjudged
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import RankLine
from breakrank_agent.protocol.log import HistoryError

_T = TypeVar("_T")

#: The histories beside that of the run, and what each of them is.
BESIDE = {
    "control": "the control",
    "control-again": "the second control",
    "reference": "the same training as one rank",
}
#: The most lines of output of one stream that are drawn, of all ranks together, and of each of many ranks.
_MOST_LINES, _MOST_PRINTED, _LEAST_LINES = 1000, 20_000, 20
_ATTEMPT, _RANK = re.compile(r"attempt-(\d{1,6})"), re.compile(r"rank-(\d{1,6})\.jsonl")


@dataclass(frozen=True)
class Seen:
    """A run as far as it is there. `missing` says, a line each, what a whole run has and this one lacks."""

    folder: Path
    history: History
    plan: Plan | None = None
    verdict: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, History] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    #: The lines that each (attempt, rank) printed, by the name of the stream, as far as their times are known.
    printed: Mapping[tuple[int, int], Mapping[str, Sequence[Printed]]] = field(default_factory=dict)


def read_run(folder: Path) -> Seen:
    """Read what there is of a run. Raises `BreakrankError` where nothing is."""
    missing: list[str] = []
    place = Folder(folder)
    names = place.names()
    if not any(name in names for name in ("plan.json", "conductor.jsonl", "attempt-0")):
        raise BreakrankError(f"{folder} is no run directory: it has no plan.json")
    try:
        saved = load_run(folder)
    except BreakrankError as error:
        missing.append(str(error))
        saved = None
    if saved is not None:
        beside = {"control": saved.control, "control-again": saved.second, "reference": saved.reference}
        seen = Seen(folder, saved.history, saved.plan, _verdict(saved, missing))
    else:
        beside = {name: _try(partial(_read_beside, place, name), None, missing) for name in BESIDE}
        history = _try(lambda: read_history(folder, place), History(), missing)
        plan = _try(lambda: load_plan(place), None, [])
        verdict = _try(lambda: load_verdict(place), None, [])
        seen = Seen(folder, history, plan, verdict or {})
    history = seen.history if seen.history.ranks else _without_conductor(place, seen.history, missing)
    nothing: dict[str, Any] = {}
    meta = _try(partial(read_meta, folder), nothing, missing)
    if not meta:
        missing.append("meta.json is missing: the versions that it ran with are not known")
    missing += _gaps(history)
    found = {name: model for name, model in beside.items() if model is not None and model.ranks}
    printed = _printed(place, history, missing)
    return Seen(folder, history, seen.plan, seen.verdict, meta, found, tuple(dict.fromkeys(missing)), printed)


def _printed(
    place: Folder, history: History, missing: list[str]
) -> dict[tuple[int, int], dict[str, Sequence[Printed]]]:
    """Return the last lines of each rank's output with their times; of many ranks, fewer of each."""
    most = max(_LEAST_LINES, min(_MOST_LINES, _MOST_PRINTED // max(1, len(history.ranks))))
    nothing: Sequence[Printed] = ()
    found: dict[tuple[int, int], dict[str, Sequence[Printed]]] = {}
    for attempt, rank in history.ranks:
        for stream, ending in (("stdout", "out"), ("stderr", "err")):
            name = f"attempt-{attempt}/rank-{rank}.{ending}"
            found.setdefault((attempt, rank), {})[stream] = _try(
                partial(read_lines, place, name, most), nothing, missing
            )
    return found


def _try(read: Callable[[], _T], otherwise: _T, missing: list[str]) -> _T:
    try:
        return read()
    except (BreakrankError, HistoryError) as error:
        missing.append(str(error))
        return otherwise


def _read_beside(place: Folder, name: str) -> History | None:
    return read_history(place.path / name, place) if place.holds_folder(name) else None


def _verdict(saved: SavedRun, missing: list[str]) -> Mapping[str, Any]:
    """Return the saved verdict; of a run that was cut short, what its records come to."""
    if saved.verdict is not None:
        return saved.verdict
    missing.append(why_unjudged(saved))
    verdict: dict[str, Any] = json.loads(json.dumps(judge_saved(saved).to_json()))
    return verdict


def _without_conductor(place: Folder, history: History, missing: list[str]) -> History:
    """Return the history of the ranks whose files are there, if the Conductor's own does not name them."""
    ranks: dict[tuple[int, int], RankHistory] = {}
    for attempt in filter(None, map(_ATTEMPT.fullmatch, place.names())):
        for rank in filter(None, map(_RANK.fullmatch, place.names(attempt[0]))):
            events: list[RankLine] = []
            _try(partial(_extend, events, place, f"{attempt[0]}/{rank[0]}"), None, missing)
            ranks[int(attempt[1]), int(rank[1])] = RankHistory(int(attempt[1]), int(rank[1]), tuple(events))
    if ranks:
        missing.append("conductor.jsonl names no ranks: their starts, ends and strikes from outside are not known")
    elif not history.conductor:
        missing.append("nothing is on record: no rank was started")
    return History(ranks, history.conductor)


def _extend(events: list[RankLine], place: Folder, name: str) -> None:
    events.extend(read_chronicle(place, name))


def _gaps(history: History) -> list[str]:
    """Say what is not on record of the ranks."""
    lines = [event["why"] for event in history.seen("damaged")]
    for event in history.seen("dropped"):
        lines.append(f"{event['count']} records of rank {event['rank']} in attempt {event['attempt']} were lost")
    lines += [
        f"{event['count']} events in the middle of rank {event['rank']} were not kept"
        for event in history.seen("left_out")
    ]
    silent = [f"rank {rank} in attempt {attempt}" for (attempt, rank), one in history.ranks.items() if not one.events]
    if silent:
        lines.append(f"nothing is on record of {', '.join(silent[:8])}{' and more' if len(silent) > 8 else ''}")
    return lines
