"""Let an oracle judge a golden history."""

from __future__ import annotations

from typing import Any

from breakrank.history.reader import History
from breakrank.oracles import Terms, all_oracles
from breakrank.verdict import Finding


def ask(oracle: str, history: History, control: History | None = None, **terms: Any) -> list[Finding]:
    """Let an oracle judge, as the judge would: without the fault events."""
    agreed = Terms(**{"ranks": 2, "steps": 3, **terms})
    return list(all_oracles()[oracle](history.without_faults(), control, agreed))


def objection(oracle: str, history: History, control: History | None = None, **terms: Any) -> tuple[Any, ...]:
    """Return (cause, ranks, step) of the one objection."""
    (finding,) = ask(oracle, history, control, **terms)
    assert finding.oracle == oracle
    assert "unknown" not in finding.sentence()
    return finding.cause, finding.ranks, finding.step
