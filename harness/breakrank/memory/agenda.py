"""The part of the memory that decides what a session runs: the cases that it has, their order, their last result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.memory.entries import NIGHTLY, Entry
from breakrank.memory.reading import before, read
from breakrank.memory.store import NAME

#: The beginning of the sentence of a case that was not started, as the time was over.
NOT_STARTED = "not started: the budget"


@dataclass(frozen=True)
class Agenda:
    """The knowledge before a session, by the name of a case.

    `done` has a result in this session already. `tested` is the last session that tested a case, `seconds` the time
    that it took there. `known` is its last result: mechanism, plan, outcome, finding.
    """

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
        return json.dumps([self.done, self.tested, self.seconds, self.known])

    @classmethod
    def loads(cls, text: str) -> Agenda:
        """Read that text."""
        done, tested, seconds, known = json.loads(text)
        return cls(tuple(done), tested, seconds, {name: tuple(values) for name, values in known.items()})


def agenda(runs: Path, number: int = 0, image: str = "") -> Agenda:
    """Return the agenda of a session: the one with a number, or a new one. Raises `BreakrankError`.

    A night knows the nights before it, and any other session all sessions.
    """
    if not (runs / NAME).exists():
        if number:
            raise BreakrankError(f"there is no history in {runs}, and so no session {number} to go on with")
        return Agenda()
    memory = read(runs)
    session = memory.session(number) if number else None
    if number and session is None:
        raise BreakrankError(f"{runs / NAME} has no session {number}; breakrank history shows which there are")
    kind = NIGHTLY if session is not None and session.kind == NIGHTLY else ""
    done = [entry.name for entry in memory.entries[number] if entry.outcome] if session is not None else []
    return _of(before(memory, kind, image, number), done)


def _of(last: Mapping[tuple[str, str, str], Entry], done: list[str]) -> Agenda:
    entries = {entry.name: entry for entry in last.values()}
    return Agenda(
        tuple(done),
        {name: entry.session for name, entry in entries.items()},
        {name: entry.seconds for name, entry in entries.items()},
        {name: (entry.mechanism, entry.plan, *entry.stood) for name, entry in entries.items()},
    )
