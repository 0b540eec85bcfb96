"""Sessions of the memory as text: one against another, one a row, the cases through time, and what is flaky."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence

from breakrank.files.bounded import plain
from breakrank.memory.entries import Entry, Session
from breakrank.memory.reading import Flaky, Memory, matching
from breakrank.memory.spans import duration
from breakrank.report.compare import Comparison, Standing, Stood, key
from breakrank.report.layout import cells, fit

#: The letter of each outcome in a row of them; a case that was not tested is a dot.
LETTERS: Mapping[str, str] = {
    "SURVIVED": "S",
    "DETECTED": "D",
    "SILENT": "X",
    "HUNG": "H",
    "CRASHED": "C",
    "VOID": "V",
    "": ".",
}
#: From short to long; the second row is for a terminal without these letters.
_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
#: The most sessions of a row of letters.
_MOST = 30


def width() -> int:
    """Return the columns that a line may take: the terminal's, and 80 where there is none."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def letters_are_there(text: str) -> bool:
    """Return whether the terminal has the letters of a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def fitted(line: str, most: int) -> str:
    """Return a line that nothing of the terminal's can wrap, cut where it is too long."""
    shown = plain(line)
    dots = "…" if letters_are_there("…") else "..."
    return shown if cells(shown) <= most else fit(shown, most - len(dots))[0] + dots


def day(moment: str) -> str:
    """Return a moment for a table, to the minute: 2026-11-30 02:00."""
    return moment[:16].replace("T", " ")


def comparison(memory: Memory, new: Session, old: Session) -> Comparison:
    """Return two sessions beside each other."""
    return compared(new, memory.entries[new.id], old, memory.entries[old.id])


def compared(new: Session, now: Iterable[Entry], old: Session, before: Iterable[Entry]) -> Comparison:
    """Return results of two sessions beside each other."""
    now, before = list(now), list(before)
    return Comparison(_standing(old, before, now), _standing(new, now, before))


def _standing(session: Session, entries: Iterable[Entry], others: Iterable[Entry]) -> Standing:
    """Return what the cases came to; one without a plan was to be struck by the means that it has in the other."""
    means = {other.name: other.mechanism for other in others}
    cases = {key(e.scenario, e.case, e.mechanism or means.get(e.name, "")): stood(e) for e in entries}
    return Standing(f"session {session.id} ({day(session.began)})", "", session.versions, cases)


def stood(entry: Entry) -> Stood:
    """Return the result of a case as a comparison has it."""
    return Stood(entry.outcome, entry.finding, entry.sentence)


def bars(seconds: Sequence[float]) -> str:
    """Return a row of bars, one for each number of seconds, the highest for the most."""
    rows = _BARS if letters_are_there(_BARS) else _ASCII_BARS
    most = max(seconds, default=0.0) or 1.0
    return "".join(rows[min(int(one / most * len(rows)), len(rows) - 1)] for one in seconds)


def counts(entries: Iterable[Entry]) -> tuple[int, int, int]:
    """Return how many cases were as recorded, how many were not, and how many were not tested."""
    entries = list(entries)
    tested = [entry for entry in entries if entry.tested]
    fine = sum(entry.as_recorded is not False for entry in tested)
    return fine, len(tested) - fine, len(entries) - len(tested)


def counted(entries: Iterable[Entry]) -> str:
    """Return `71 as recorded, 3 changed, 9 not tested` of the results of a session."""
    return "{} as recorded, {} changed, {} not tested".format(*counts(entries))


def session_rows(memory: Memory) -> list[str]:
    """Return one row a session, the newest first, below a head."""
    head = f"{'#':>5}  {'began (UTC)':<16}  {'time':>11}  recorded  changed  untested  kind"
    seconds = [sum(entry.seconds for entry in memory.entries[session.id]) for session in memory.sessions]
    rows = [
        f"{one.id:>5}  {day(one.began)}  {bar} {duration(took):>9}  {_numbers(memory, one)}  {_kind(one)}"
        for one, took, bar in zip(memory.sessions, seconds, bars(seconds), strict=True)
    ]
    return [head, *reversed(rows)]


def _numbers(memory: Memory, session: Session) -> str:
    fine, changed, untested = counts(memory.entries[session.id])
    return f"{fine:>8}  {changed:>7}  {untested:>8}"


def _kind(session: Session) -> str:
    torch = f"torch {session.torch}" if session.torch not in ("", "missing") else ""
    return "  ".join(filter(None, (session.kind, session.image, torch)))


def history_of(memory: Memory, wanted: str) -> list[str]:
    """Return the rows of the cases that are meant: of one case a row a session, of several a row a case."""
    found = matching(memory, wanted)
    if len(found) != 1:
        return [_strip(name, entries) for name, entries in found.items()]
    ((name, entries),) = found.items()
    drawn = bars([entry.seconds for entry in entries])
    began = {session.id: session.began for session in memory.sessions}
    rows = [
        f"{f'#{entry.session}':>5}  {day(began[entry.session])}  {bar} {duration(entry.seconds):>8}  {_outcome(entry)}"
        for entry, bar in zip(entries, drawn, strict=True)
    ]
    return [_strip(name, entries), *reversed(rows)]


def _strip(name: str, entries: Sequence[Entry]) -> str:
    last = entries[-_MOST:]
    return f"{''.join(LETTERS.get(entry.outcome, '?') for entry in last)}  {bars([e.seconds for e in last])}  {name}"


def _outcome(entry: Entry) -> str:
    words = f"{entry.outcome} ({entry.finding})" if entry.finding else entry.outcome or f"not tested: {entry.sentence}"
    mark = f", on record {entry.record}" if entry.as_recorded is False else ""
    return words + mark + (", flaky" if entry.flaky else "")


def flaky_rows(found: Iterable[Flaky]) -> list[str]:
    """Return two rows for each plan that is flaky."""
    rows = []
    for one in found:
        last = one.entries[-1]
        outcomes = ", ".join(f"{words} in {count}" for words, count in one.outcomes.items())
        letters = "".join(LETTERS.get(entry.outcome, "?") for entry in one.entries[-_MOST:])
        rows.append(f"{letters}  {last.name} [{last.mechanism}]")
        rows.append(f"    {len(one.entries)} runs, {one.digests} digests: {outcomes}; last in #{last.session}")
    return rows
