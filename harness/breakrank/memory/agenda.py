"""The part of the memory that decides what a session runs: the cases that it has, their order, their last result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.memory.entries import NIGHTLY, PYTEST, Entry, Session
from breakrank.memory.reading import Memory, before, read
from breakrank.memory.store import NAME

#: The beginning of the sentence of a case that was not started, as the time was over.
NOT_STARTED = "not started: the budget"


@dataclass(frozen=True)
class Agenda:
    """The knowledge before a session, by the name of a case.

    `session` is the number of the session that is gone on with, 0 for a new one; `done` are the cases that have a
    result there. `tested` is the last session that tested a case, `seconds` the time that it took there. `known` is its
    last result: mechanism, plan, outcome, finding.
    """

    session: int = 0
    done: tuple[str, ...] = ()
    tested: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    known: Mapping[str, tuple[str, str, str, str]] = field(default_factory=dict)

    def place(self, name: str) -> tuple[int, float]:
        """Return the place of a case in the order: never tested, then longest not tested, then slowest."""
        return self.tested.get(name, 0), -self.seconds.get(name, 0.0)

    def changed(self, name: str, mechanism: str, plan: str, stood: tuple[str, str], as_recorded: bool) -> bool:
        """Return whether a result differs from the last one of the same plan; without one, from the record."""
        *same, outcome, finding = self.known.get(name, ("", "", "", ""))
        return (outcome, finding) != stood if same == [mechanism, plan] else not as_recorded

    def dumps(self) -> str:
        """Return it as text, for the workers of xdist."""
        return json.dumps([self.session, self.done, self.tested, self.seconds, self.known])

    @classmethod
    def loads(cls, text: str) -> Agenda:
        """Read that text."""
        session, done, tested, seconds, known = json.loads(text)
        return cls(session, tuple(done), tested, seconds, {name: tuple(values) for name, values in known.items()})


def agenda(runs: Path, resume: int | None = None, image: str = "") -> Agenda:
    """Return the agenda of a session: a new one, the one with a number, or (0) the last one. Raises `BreakrankError`.

    A night knows the nights before it, and any other session all sessions.
    """
    if not (runs / NAME).exists():
        if resume is not None:
            raise BreakrankError(f"there is no history in {runs}, and so no session to go on with")
        return Agenda()
    memory = read(runs)
    session = _resumed(memory, runs, resume) if resume is not None else None
    if session is None:
        return _of(before(memory, image=image))
    if session.image != image:
        ran = f"on the image {session.image}" if session.image else "without an image"
        raise BreakrankError(f"session {session.id} ran {ran}: go on with it in the same way")
    done = tuple(entry.name for entry in memory.entries[session.id] if entry.outcome)
    kind = NIGHTLY if session.kind == NIGHTLY else ""
    return replace(_of(before(memory, kind, image, session.id)), session=session.id, done=done)


def _resumed(memory: Memory, runs: Path, number: int) -> Session:
    """Return the session with a number, or (0) the last call of pytest. Raises `BreakrankError`."""
    calls = [session for session in memory.sessions if session.kind == PYTEST]
    found = memory.session(number) if number else calls[-1] if calls else None
    if found is None:
        which = f"session {number}" if number else "session of pytest"
        raise BreakrankError(f"{runs / NAME} has no {which} to go on with; breakrank history shows which there are")
    return found


def _of(last: Mapping[tuple[str, str, str], Entry]) -> Agenda:
    entries = {entry.name: entry for entry in last.values()}
    return Agenda(
        tested={name: entry.session for name, entry in entries.items()},
        seconds={name: entry.seconds for name, entry in entries.items()},
        known={name: (entry.mechanism, entry.plan, *entry.stood) for name, entry in entries.items()},
    )
