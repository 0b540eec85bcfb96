"""Tell what is found for its own sake from what is only a consequence of it."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank.analysis.collectives import last_call
from breakrank.history.reader import History
from breakrank.verdict import Finding


def without_consequences(history: History, findings: Sequence[Finding], judged: Sequence[Finding]) -> list[Finding]:
    """Return the findings but for deaths in collectives that `judged` shows ranks to have called unlike.

    A backend ends the process in a collective that does not fit the others', or in one of those after it. The verdict
    still says how the rank died.
    """
    unlike = [f for f in judged if f.oracle == "collectives" and "group" in f.evidence]
    return [f for f in findings if not any(_follows(history, f, reason) for reason in unlike)]


def _follows(history: History, death: Finding, unlike: Finding) -> bool:
    """Return whether a rank died in a collective that ranks called unlike, or in a later one of the same group."""
    if death.cause != "killed by a signal" or death.attempt != unlike.attempt:
        return False
    call = last_call(history.ranks[death.attempt, death.ranks[0]])
    if call is None:
        return False
    same = f"rank {call.rank}: {call.words()}" in unlike.places
    later = call.peer is None and call.group == unlike.evidence["group"] and call.number > unlike.evidence["number"]
    return same or later
