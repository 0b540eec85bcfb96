"""Objects to a rank that ended with exit code 0 and left work undone."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank.analysis.lineage import steps_before
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding

PROPERTY = "ends"


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Compare the steps in the state of each rank that ended well with its control's, else with the job's."""
    ends = [lived for lived in history.ranks.values() if lived.status is not None]
    if not ends:
        raise Abstain("no rank has an end on record")
    if not terms.steps and control is None:
        raise Abstain("nothing says how many steps the job has")
    undone: dict[tuple[int, int, int, int], list[int]] = {}
    for lived in ends:
        done = steps_before(history, lived.attempt, lived.rank) + lived.last_step
        expected = _expected(control, lived, terms)
        if lived.ended_well and done < expected:
            undone.setdefault((lived.attempt, lived.last_step, done, expected), []).append(lived.rank)
    return [
        Finding(
            "ends",
            "training incomplete",
            tuple(sorted(ranks)),
            step,
            attempt,
            evidence={"done": done, "expected": expected},
        )
        for (attempt, step, done, expected), ranks in sorted(undone.items())
    ]


def _expected(control: History | None, lived: RankHistory, terms: Terms) -> int:
    """Return how many steps the rank should have made."""
    for model in control.last if control is not None else ():
        if model.rank == lived.rank and model.ended_well:
            return model.last_step
    return terms.steps
