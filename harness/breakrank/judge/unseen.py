"""Training that nobody looked at: in processes that are no ranks, or in a command of which no process is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from breakrank.history.reader import History
from breakrank.plan.script import is_script, rank_cure
from breakrank.runners import find_runner
from breakrank.verdict import Finding, name_ranks
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import UnrankedEvent


def say_unseen(history: History, findings: Sequence[Finding]) -> Iterator[str]:
    """Say that all training was in processes that are no ranks, where nothing was found in these either."""
    seen = any(finding.cause != "no progress" for finding in findings)
    if _trained(history) and history.last and not seen and not any(lived.last_step for lived in history.last):
        yield f"all training is in {_describe(history)}"


def note_unseen(history: History, plan: Plan) -> Iterator[str]:
    """Say that ranks were started by the script itself, and that processes trained beside ranks that did."""
    if is_script(plan.command) and find_runner(plan.runner).joins and not _is_watched(plan):
        yield f"{plan.command[0]} starts its ranks itself: it was started once, and without RANK"
    if _trained(history) and any(lived.last_step for lived in history.last):
        yield f"training was not looked at in {_describe(history)}"


def why_no_rank_came(history: History, plan: Plan, seen: str) -> str:
    """Return what trained all the same in a command without ranks, else `seen`, how it ended, with the cure."""
    trained = _trained(history)
    alone = all(event["own"] for event in trained)
    # One that had to be ended may have ranks that had not come yet.
    ended = any(launcher["ended"] for launcher in history.seen("launcher"))
    cure = rank_cure(plan.command, started_here=not _is_watched(plan)) if alone and not ended else ""
    said = f"all training is in {_describe(history)}" if trained else seen
    return "; ".join(filter(None, (said, cure)))


def _is_watched(plan: Plan) -> bool:
    """Return whether a command was started as it is, to be watched and no more."""
    return plan.scenario == "watch"


def _trained(history: History) -> list[UnrankedEvent]:
    """Return the processes that trained in the last attempt, or joined a group, and are no ranks."""
    last = history.attempts[-1] if history.attempts else 0
    return [event for event in history.seen("unranked") if event["attempt"] == last and event["rank"] is None]


def _describe(history: History) -> str:
    """Name the processes that trained and are no ranks, by who started them, and what they did."""
    trained = _trained(history)
    did = ", ".join(dict.fromkeys(event["did"] for event in trained))
    starters = sorted({event["below"] for event in trained if event["below"] is not None})
    if all(event["own"] for event in trained):
        return f"the process of the command, which is no rank ({did})"
    processes = "a process" if len(trained) == 1 else f"{len(trained)} processes"
    by = f"that {name_ranks(starters)} started and " if starters else ""
    return f"{processes} {by}that {'is no rank' if len(trained) == 1 else 'are no ranks'} ({did})"
