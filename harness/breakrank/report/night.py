"""A night against the nights before it: worse, better, flaky, too little tested, in words and as JSON."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from breakrank.memory.agenda import NOT_STARTED
from breakrank.memory.entries import NIGHTLY, Entry, Session
from breakrank.memory.reading import Key, Memory, before, key_of
from breakrank.memory.spans import duration
from breakrank.report.compare import Comparison
from breakrank.report.sessions import compared, counted, day, stood

#: Less than this share of the cases tested, and a night says too little.
_ENOUGH = 0.5
#: The most lines of one kind in the page of text.
_MOST = 200


@dataclass(frozen=True)
class Night:
    """A night, its results, and the last steady result of each case in an earlier night, with that session."""

    session: Session
    entries: Sequence[Entry]
    known: Mapping[Key, Entry]
    last: Session | None

    @property
    def flaky(self) -> list[Entry]:
        """The cases that came to different results in one night."""
        return [entry for entry in self.entries if entry.flaky]

    @property
    def wrong(self) -> list[Entry]:
        """The cases that are not as on record."""
        return [entry for entry in self.entries if entry.tested and not entry.flaky and entry.as_recorded is False]

    @property
    def not_started(self) -> list[Entry]:
        """The cases that the budget left no time for."""
        return [entry for entry in self.entries if entry.sentence.startswith(NOT_STARTED)]

    @cached_property
    def _comparison(self) -> Comparison:
        names = {entry.name for entry in (*self.flaky, *self.not_started)}
        now = [entry for entry in self.entries if entry.name not in names]
        mine = {entry.name for entry in now}
        return compared(
            self.session, now, self.last or self.session, [e for e in self.known.values() if e.name in mine]
        )

    @cached_property
    def changes(self) -> dict[str, list[str]]:
        """The lines of each kind. A case that no night knows and that is not as on record is worse than nothing."""
        found = self._comparison.changes()
        known = {entry.name for entry in self.known.values()}
        unknown = [entry for entry in self.wrong if entry.name not in known]
        found["worse"] += [f"{e.name}: {stood(e).words()}, on record is {e.record}: {e.sentence}" for e in unknown]
        names = tuple(f"{entry.name} [" for entry in unknown)
        found["new"] = [line for line in found["new"] if not line.startswith(names)]
        return found

    @property
    def tested(self) -> int:
        """The number of cases that were tested."""
        return sum(entry.tested for entry in self.entries)

    @property
    def status(self) -> int:
        """The exit code: 1 if a case is worse than in the night before, 2 if too little was tested, else 0."""
        if self.changes["worse"]:
            return 1
        cases = max(self.session.selected, len(self.entries))
        return 2 if self.changes["gone"] or not cases or self.tested < _ENOUGH * cases else 0

    @property
    def headline(self) -> str:
        """The night in one line."""
        judged = ("nothing is worse than before", "something is worse than before", "too little was tested")[
            self.status
        ]
        numbers = {**{kind: len(lines) for kind, lines in self.changes.items()}, "flaky": len(self.flaky)}
        told = ", ".join(f"{number} {kind}" for kind, number in numbers.items() if number)
        return f"night {self.session.id}: {judged}; {counted(self.entries)}{f'; {told}' if told else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "night": self.session.id,
            "began": self.session.began,
            "image": self.session.image,
            "status": self.status,
            "headline": self.headline,
            "before": self.last.id if self.last is not None else None,
            "selected": self.session.selected,
            "tested": self.tested,
            "seconds": round(sum(entry.seconds for entry in self.entries), 2),
            **self.changes,
            "flaky": [{"name": entry.name, "runs": _runs(entry)} for entry in self.flaky],
            "not_as_recorded": [entry.name for entry in self.wrong],
            "not_tested": {entry.name: entry.sentence for entry in self.entries if not entry.tested},
        }

    def markdown(self) -> str:
        """Return it as a page of text, for the summary of a job in CI."""
        versions = ", ".join(f"{name} {version}" for name, version in self.session.versions.items())
        took = duration(sum(entry.seconds for entry in self.entries))
        began = f"Began {day(self.session.began)} UTC, ran {took}. {versions}."
        return "\n\n".join([f"# {_md(self.headline)}", _md(began), *self._sections()]) + "\n"

    def _sections(self) -> Iterator[str]:
        flaky = [f"{entry.name}: {', '.join(_runs(entry))}" for entry in self.flaky]
        wrong = [f"{entry.name}: {stood(entry).words()}, on record is {entry.record}" for entry in self.wrong]
        untested = [f"{entry.name}: {entry.sentence}" for entry in self.entries if not entry.tested]
        lists = {**self.changes, "flaky": flaky, "not as on record": wrong, "not tested": untested}
        for title, lines in lists.items():
            if lines:
                more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
                yield "\n".join(
                    [f"## {title}: {len(lines)}", "", *(f"- {_md(one)}" for one in [*lines[:_MOST], *more])]
                )


def night_of(memory: Memory, number: int) -> Night:
    """Return a night of the memory."""
    session = next(one for one in memory.sessions if one.id == number)
    known = before(memory, NIGHTLY, session.image, number)
    numbers = {entry.session for entry in known.values()}
    last = next((one for one in reversed(memory.sessions) if one.id in numbers), None)
    names = {entry.name for entry in memory.entries[number]}
    return Night(session, memory.entries[number], {key_of(e): e for e in known.values() if e.name in names}, last)


def _runs(entry: Entry) -> list[str]:
    """Return what each attempt at a case came to."""
    return [stood(one).words() for one in (entry, *entry.again)]


def _md(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return re.sub(r"([\\`*_\[\]#|~!])", r"\\\1", html.escape(line, quote=False))
