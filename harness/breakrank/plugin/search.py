"""A search over seeds: the outcome of each, the number of corrupted results, and the standing of the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from breakrank.report.compare import finding
from breakrank.verdict import Finding, Outcome

if TYPE_CHECKING:
    from breakrank.runs.result import Result

#: The most seeds that a failed search lists.
_MOST = 10


class Search:
    """The results of a case at several seeds, in their order.

    Another seed is another order of events, and so a verdict need not be the record's in every word. A sound program
    must be sound at each seed. A broken one may do its harm at some and none at others, or be noticed at some; what is
    on record must come at one seed at least, and at each if it is found whether or not it does harm.
    """

    def __init__(self, asked: int) -> None:
        self._asked = asked
        self._results: list[Result] = []

    def add(self, result: Result) -> None:
        """Take the next seed's result."""
        self._results.append(result)

    @property
    def shown(self) -> Result:
        """The result that shows most: one that contradicts the record, one with harm, one with a finding, the first."""
        harmed = [r for r in self._results if r.verdict.harmed]
        found = [r for r in self._results if r.verdict.findings]
        return (*self.against(), *harmed, *found, *self._results)[0]

    def against(self) -> list[Result]:
        """Return the results that contradict the record; without a record, those with something to object to."""
        return [r for r in self._results if not (r.record.allows(*_said(r)) if r.record else r.as_recorded)]

    def stands(self) -> bool:
        """Return whether no seed contradicts the record, and its outcome has come at one seed."""
        if self.against():
            return False
        return any(r.record is None or r.record.resembles(*_said(r)) for r in self._results)

    def count(self) -> str:
        """Return how many seeds were run, of how many."""
        return f"{len(self._results)}/{self._asked}"

    def words(self) -> str:
        """Say at how many seeds there was which outcome, at how many something was corrupted, and first at which."""
        by_outcome: dict[Outcome, list[int]] = {}
        for result in self._results:
            by_outcome.setdefault(result.verdict.outcome, []).append(result.plan.seed)
        said = ", ".join(f"{outcome} at {_seeds(seeds, by_outcome)}" for outcome, seeds in by_outcome.items())
        harmed = [r.plan.seed for r in self._results if r.verdict.harmed]
        first = f", first at seed {harmed[0]}" if harmed else ""
        shown = self.shown
        sentence = f": {shown.verdict.sentence()}" if shown.verdict.outcome is not Outcome.SURVIVED else ""
        return f"{said}; corrupted at {len(harmed)} of {len(self._results)} seeds{first}{sentence}"

    def objections(self) -> list[str]:
        """Say what contradicts the record, seed by seed; or that what it says never came."""
        against = self.against()
        lines = [f"seed {r.plan.seed}: {r.verdict.outcome}: {r.verdict.sentence()}" for r in against[:_MOST]]
        if len(against) > _MOST:
            lines.append(f"and {len(against) - _MOST} more seeds")
        record = self._results[0].record
        return lines or [f"what is on record, {record.words() if record else 'nothing'}, came at no seed"]


def retried(results: Sequence[Result]) -> str:
    """Say of a case that was tried again whether it has changed, or is flaky, and how often it came to what."""
    stood = [
        f"{r.verdict.outcome} ({found})" if (found := finding(r.verdict)) else str(r.verdict.outcome) for r in results
    ]
    counts = {words: stood.count(words) for words in stood}
    if len(counts) == 1:
        return f"changed: {stood[0]} in each of {len(stood)} runs"
    return f"flaky: {', '.join(f'{words} in {count}' for words, count in counts.items())} of {len(stood)} runs"


def _said(result: Result) -> tuple[Outcome, Sequence[Finding]]:
    return result.verdict.outcome, result.verdict.findings


def _seeds(seeds: list[int], by_outcome: dict[Outcome, list[int]]) -> str:
    """Say how many seeds had an outcome, and the first of them if others had another."""
    return f"{len(seeds)}" if len(by_outcome) == 1 else f"{len(seeds)} (first {seeds[0]})"
