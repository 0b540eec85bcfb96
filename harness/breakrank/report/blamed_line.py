"""The line of the user's code that a failure leads to, for readers that show a message beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from breakrank.analysis.error_words import is_foreign
from breakrank.history.reader import RankHistory
from breakrank.host.stacks import parse_dump
from breakrank.report import saved_verdict
from breakrank.runs.saved_run import SavedRun, programs_of

#: A line of code among the places of a finding.
_PLACE = re.compile(r"([^\s:]+\.py):(\d+)")


class CodeLine(NamedTuple):
    """A file and a line in it."""

    file: str
    line: int


def blamed_line(run: SavedRun) -> CodeLine | None:
    """Return the line where a blamed rank stood, raised, or did what a finding objects to; None if none is known.

    Ranks that nobody blames come after those that are to blame.
    """
    blamed = saved_verdict(run)["blame"]["ranks"]
    ranks = sorted(run.history.last, key=lambda lived: (lived.rank not in blamed, lived.rank))
    hung = saved_verdict(run)["outcome"] == "HUNG"
    ways = (_stood, _raised, _found) if hung else (_found, _raised)
    return next((line for way in ways for line in way(run, ranks)), None)


def _stood(run: SavedRun, ranks: list[RankHistory]) -> Iterator[CodeLine]:
    """Yield the innermost lines of the user's at which the main threads stood when they were ended."""
    dumps = [e for e in run.history.seen("stacks") if e["attempt"] == run.history.attempts[-1]]
    for lived in ranks:
        for event in dumps:
            stacks = parse_dump(event["text"]) if event["rank"] == lived.rank else ()
            yield from (CodeLine(s.place.frames[-1].file, s.place.frames[-1].line) for s in stacks if s.main)


def _raised(run: SavedRun, ranks: list[RankHistory]) -> Iterator[CodeLine]:
    """Yield the innermost lines of the user's that the exceptions of the ranks came through."""
    for lived in ranks:
        frames = lived.report.get("frames", ()) if lived.report is not None else ()
        own = [frame for frame in frames if not is_foreign(str(frame[0]))]
        yield from (CodeLine(str(file), int(line)) for file, line, *_ in own[-1:])


def _found(run: SavedRun, ranks: list[RankHistory]) -> Iterator[CodeLine]:
    """Yield the lines that findings name: a finding has the name of a file alone."""
    folder = programs_of(run.folder)
    for finding in saved_verdict(run)["findings"]:
        for said in (*finding["places"], finding["sentence"]):
            for name, line in _PLACE.findall(str(said)):
                path = folder / name if folder is not None else None
                if path is not None and path.is_file():
                    yield CodeLine(str(path), int(line))
