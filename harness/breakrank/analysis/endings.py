"""The ends of ranks, as the rules of the verdict see them."""

from __future__ import annotations

from breakrank.analysis.collectives import last_call
from breakrank.analysis.error_words import cause, users_line
from breakrank.history.reader import History, RankHistory, signal_name
from breakrank.verdict import Ended
from breakrank_agent.protocol.events import StrikeOutcomeEvent


def classify(history: History, attempt: int) -> dict[int, Ended]:
    """Return how each rank of an attempt ended. Reads fault events: it is not for oracles, nor for blame."""
    own = {lived.rank: _own_end(history, lived) for lived in history.attempt(attempt)}
    failed = [rank for rank, end in own.items() if end in (Ended.REPORTED, Ended.CRASHED)]
    waiting = set()
    for position, event in enumerate(history.conductor):
        if event["kind"] == "hung" and event["attempt"] == attempt:
            others = [history.exit_position(attempt, r) for r in failed if r not in event["ranks"]]
            if not any(gone is not None and gone < position for gone in others):
                waiting.update(event["ranks"])
    return {rank: Ended.HUNG if rank in waiting else end for rank, end in own.items()}


def _own_end(history: History, lived: RankHistory) -> Ended:
    """Return how a rank ended, apart from a wait that we put an end to."""
    if acted(history, lived) is not None:
        return Ended.STRUCK
    if lived.report is not None:
        return Ended.REPORTED
    if lived.ended_well:
        return Ended.WELL
    if lived.ended_by_us or lived.status is None:
        return Ended.STRUCK if landed(history, lived.attempt, lived.rank) else Ended.COLLATERAL
    return Ended.CRASHED if lived.died_of() else Ended.REPORTED


def acted(history: History, lived: RankHistory) -> int | None:
    """Return the exit status that the injector itself delivered to a rank, if that is what ended it."""
    for event in strikes(history, "act", lived.attempt, lived.rank):
        if lived.status is not None and event["status"] == lived.status:
            return lived.status
    return None


def landed(history: History, attempt: int, rank: int) -> list[StrikeOutcomeEvent]:
    """Return the strikes that landed on a rank."""
    return strikes(history, "landed", attempt, rank)


def strikes(history: History, phase: str, attempt: int, rank: int) -> list[StrikeOutcomeEvent]:
    """Return the Conductor's fault events of one phase about one rank of one attempt."""
    return [
        e
        for e in history.seen("strike")
        if e["phase"] == phase and e.get("rank") == rank and e.get("attempt", attempt) == attempt
    ]


def describe(lived: RankHistory, end: Ended) -> str:
    """Say in a clause how a rank ended."""
    step = where_at(lived)
    where = f"at step {step}" if step else "before the first step"
    if end is Ended.REPORTED:
        told = lived.report is not None and "through" in lived.report
        through = ", raised in a process that it had started," if told else ""
        return f"rank {lived.rank} reported {reported(lived)}{_line(lived)}{through} {where}"
    if end is Ended.CRASHED:
        call = last_call(lived)
        return f"rank {lived.rank} died of {lived.died_of()}{f' in {call.words()}' if call else ''} {where}"
    if end is Ended.WELL and lived.status:
        return f"rank {lived.rank} died of {signal_name(-lived.status)} after its work was over"
    if end is Ended.STRUCK and lived.status is not None and not lived.ended_by_us:
        how = signal_name(-lived.status) if lived.status < 0 else f"exit code {lived.status}"
        return f"rank {lived.rank} was ended by the injector ({how}) {where}"
    if end is Ended.STRUCK:
        return f"rank {lived.rank} stood still, struck by the injector, {where}"
    return f"rank {lived.rank} {end.value} {where}" if end is not Ended.WELL else f"rank {lived.rank} ended well"


def reported(lived: RankHistory) -> str:
    """Return what a rank reported: the exception and its cause, or the exit code."""
    report = lived.report
    if report is None or not report.get("type"):
        code = report.get("code") if report is not None else lived.status
        return f"exit code {code}"
    said = cause(str(report.get("message") or ""))
    return f"{report['type']}: {said}" if said else str(report["type"])


def _line(lived: RankHistory) -> str:
    """Return the user's line that a rank's report came from, in brackets; empty if it is not known."""
    report = lived.report
    line = users_line(str(report.get("message") or ""), report.get("frames", ())) if report is not None else ""
    return f" ({line})" if line else ""


def where_at(lived: RankHistory) -> int:
    """Return the step that a rank was last seen in."""
    return max((int(e["step"]) for e in lived.events if "step" in e), default=0)
