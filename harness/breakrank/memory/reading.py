"""Questions that the memory answers: which session is meant, what a case came to before, and what is flaky."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.memory.entries import NIGHTLY, Entry, Session
from breakrank.memory.store import NAME, Store

#: By which a case is known from session to session: scenario, case, mechanism.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Memory:
    """The contents of a file: the sessions in their order, and the results of each."""

    sessions: tuple[Session, ...]
    entries: Mapping[int, Sequence[Entry]]

    def session(self, number: int) -> Session | None:
        """Return a session by its number, or None."""
        return next((session for session in self.sessions if session.id == number), None)


def key_of(entry: Entry) -> Key:
    """Return what a case is known by."""
    return entry.scenario, entry.case, entry.mechanism


def database(place: Path) -> Path:
    """Return the file that is meant by the folder of the runs, or by the file itself. Raises `BreakrankError`."""
    path = place / NAME if place.is_dir() else place
    if not path.exists():
        raise BreakrankError(f"there is no history at {path}; name the folder of the runs by --runs")
    return path


def read(place: Path, since: str = "") -> Memory:
    """Return what the memory holds, of the sessions that began at `since` or later. Raises `BreakrankError`."""
    with Store(database(place), write=False) as store:
        sessions = tuple(session for session in store.sessions() if session.began >= since)
        return Memory(sessions, store.entries([session.id for session in sessions]))


def matching(memory: Memory, wanted: str) -> dict[str, list[Entry]]:
    """Return the results of the cases that a name, a part of one or a glob means, by case and in their order."""
    found: dict[str, list[Entry]] = {}
    for session in memory.sessions:
        for entry in memory.entries[session.id]:
            if wanted in entry.name or fnmatch.fnmatchcase(entry.name, wanted):
                found.setdefault(entry.name, []).append(entry)
    # A whole name is not a part of others.
    return {wanted: found[wanted]} if wanted in found else dict(sorted(found.items()))


def before(memory: Memory, kind: str = "", image: str = "", below: int = 0) -> dict[Key, Entry]:
    """Return the last result of each case that was tested, of the sessions on an image before the one with a number.

    Sessions of one `kind` only, if one is named. A night that has not ended was never reported, and is passed over, as
    are results that were flaky.
    """
    found: dict[Key, Entry] = {}
    for session in memory.sessions:
        unfinished = session.kind == NIGHTLY and session.exit is None
        if (below and session.id >= below) or session.image != image or kind not in ("", session.kind) or unfinished:
            continue
        found.update({key_of(entry): entry for entry in memory.entries[session.id] if entry.tested and not entry.flaky})
    return found


@dataclass(frozen=True)
class Flaky:
    """A plan that came to different results although plan, programs and software were the same."""

    entries: tuple[Entry, ...]

    @property
    def outcomes(self) -> dict[str, int]:
        """The number of runs that came to each outcome with its finding."""
        found: dict[str, int] = {}
        for entry in self.entries:
            words = f"{entry.outcome} ({entry.finding})" if entry.finding else entry.outcome
            found[words] = found.get(words, 0) + 1
        return found

    @property
    def digests(self) -> int:
        """The number of different digests."""
        return len({entry.digest for entry in self.entries})


def flaky(memory: Memory) -> list[Flaky]:
    """Return the plans that came to two outcomes, findings or digests, as equal plans should not."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in _attempts(memory):
        if entry.tested and entry.plan:
            groups.setdefault((entry.name, entry.plan, entry.code), []).append(entry)
    found = [Flaky(tuple(entries)) for entries in groups.values()]
    return [one for one in found if len(one.outcomes) > 1 or one.digests > 1]


def _attempts(memory: Memory) -> Iterable[Entry]:
    for session in memory.sessions:
        for entry in memory.entries[session.id]:
            yield from (entry, *entry.again)


def pair(memory: Memory, new: str = "last", old: str = "previous") -> tuple[Session, Session]:
    """Return two sessions that are to be compared. Raises `BreakrankError`.

    `last` is the last one that tested a case; `previous` the last one before the other that tested one of its cases.
    """
    later = _named(memory, new)
    if old != "previous":
        return later, _named(memory, old)
    cases = {entry.name for entry in memory.entries[later.id]}
    for session in reversed(memory.sessions):
        if session.id < later.id and any(e.tested and e.name in cases for e in memory.entries[session.id]):
            return later, session
    raise BreakrankError(f"no session before #{later.id} tested one of its cases; run the same scenarios twice")


def _named(memory: Memory, name: str) -> Session:
    if name == "last":
        tested = [s for s in memory.sessions if any(entry.tested for entry in memory.entries[s.id])]
        if not tested:
            raise BreakrankError("the history has no session that tested a case; run a scenario first")
        return tested[-1]
    number = name.removeprefix("#")
    found = memory.session(int(number)) if number.isdecimal() and len(number) < 18 else None
    if found is None:
        raise BreakrankError(f"there is no session {name!r}; give a number as breakrank history shows it, or last")
    return found
