"""Find the root cause: the ranks to blame, from the events alone, never from strikes nor from the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from breakrank.analysis.digests import outside_majority
from breakrank.analysis.endings import reported, where_at
from breakrank.analysis.moments import error_of, in_order
from breakrank.analysis.wait_for import SPOKEN
from breakrank.causes import HAZARDS
from breakrank.history.reader import History, RankHistory
from breakrank.verdict import Blame, Finding, name_ranks

#: The words of a report about a lost peer or connection: a rank with such a report may be a victim.
LOST = re.compile(
    r"connection (was |is )?(closed|reset|refused|aborted|lost)|closed by peer|reset by peer|broken pipe|"
    r"socket closed|failed to recv, got 0 bytes|errors while waiting for send/recv|"
    # The kernel calls a resource so that has run out.
    r"(?<!temporarily )unavailable|heartbeat",
    re.IGNORECASE,
)
#: Causes that lie between ranks: all ranks of the finding are to blame, even if they are all ranks of the job.
_BETWEEN_RANKS = ("lost update", "replicas differ", "interleaved file", "lost write", *HAZARDS)
#: The words by which a report names a rank, or several: `rank 1`, `Ranks 1, 2`, `ranks 1 and 2`.
NAMED = re.compile(r"\branks \d+(?:(?:, and |, | and )\d+)*\b|\brank \d+\b", re.IGNORECASE)
#: The words of a report about a wait that ended in vain.
TIMED_OUT = re.compile(r"timed? ?-?out|deadline exceeded", re.IGNORECASE)


@dataclass(frozen=True)
class Accusation:
    """A blame by the launcher or by the exception of a rank, `after_s` seconds after the ranks' start."""

    by: str
    ranks: tuple[int, ...]
    after_s: float | None = None

    def words(self) -> str:
        """Say it in one clause."""
        when = "" if self.after_s is None else f", {self.after_s:.1f} s after the start"
        return f"{self.by} blamed {name_ranks(self.ranks) if self.ranks else 'no rank'}{when}"


def accusations(history: History) -> tuple[Accusation, ...]:
    """Return whom the ranks' own reports and the launcher blamed in the last attempt, in the order of time."""
    if not history.attempts:
        return ()
    starts = [float(e["t"]) for e in history.seen("spawned") if e["attempt"] == _last(history)]
    reports = in_order(history, (lived for lived in history.last if _reported_type(lived)), _report_time)
    by_ranks = [
        Accusation(
            f"{_reported_type(lived)} in rank {lived.rank}",
            tuple(sorted(_accused(history, lived))),
            round(_report_time(lived) - min(starts), 3) if starts else None,
        )
        for lived in reports
    ]
    launcher = [Accusation("the launcher", tuple(e["blames"])) for e in history.seen("launcher") if e["status"]]
    return (*by_ranks, *launcher)


def blame(history: History, findings: Sequence[Finding]) -> Blame:
    """Return who is to blame for how the last attempt ended, else for the first finding; perhaps nobody.

    `history` has no fault events. The first rule that names somebody, or can say why nobody, holds.
    """
    for rule in (_called_otherwise, _died, _stands_still, _left_early, _reported_first, _does_not_come, _objected_to):
        found = rule(history, findings)
        if found is not None:
            return found
    return Blame()


def _called_otherwise(history: History, findings: Sequence[Finding]) -> Blame | None:
    """Blame the ranks whose collective did not match: who dies of it, reports it or waits is often another one."""
    for finding in findings:
        if finding.oracle == "collectives" and finding.attempt == _last(history):
            # If nothing tells apart those that called it, or all have a wrong result, it is no single one's fault.
            everyone = len(finding.ranks) >= finding.evidence.get("callers", len(history.last))
            return Blame(() if everyone else finding.ranks, finding.sentence())
    return None


def _died(history: History, findings: Sequence[Finding]) -> Blame | None:
    """Blame the first rank that died of a signal, and with a SIGKILL, which no peer's death causes, all such ranks."""
    dead = sorted((lived for lived in history.last if lived.died_of()), key=lambda lived: _exit_time(history, lived))
    if not dead:
        return None
    first = dead[0].died_of()
    guilty = [lived for lived in dead if lived.died_of() == "SIGKILL"] if first == "SIGKILL" else dead[:1]
    return _name(guilty, f"died of {first} at step {where_at(dead[0])}")


def _stands_still(history: History, findings: Sequence[Finding]) -> Blame | None:
    """Blame the ranks that stood still while others waited for them."""
    return _peer(history, "peer stopped", "stands still while others wait for it")


def _left_early(history: History, findings: Sequence[Finding]) -> Blame | None:
    """Blame the ranks that left without a word while others waited, or before their work was done."""
    undone = {r for f in findings if f.cause == "training incomplete" and f.attempt == _last(history) for r in f.ranks}
    left = [
        lived
        for lived in history.last
        if lived.status is not None
        and lived.status >= 0
        and not lived.ended_by_us
        and lived.report is None
        and (lived.status > 0 or lived.rank in undone)
    ]
    if left:
        return _name(left, f"left with exit code {left[0].status} at step {where_at(left[0])}, and said nothing")
    held = "ended, and what it left behind holds its connections open"
    return _peer(history, "peer ended", "ended while others wait for it") or _peer(
        history, "connection held by orphan", held
    )


def _reported_first(history: History, findings: Sequence[Finding]) -> Blame | None:
    """Blame the ranks that another one's report names, else the first rank to report for itself.

    A rank that reports a lost connection or a wait is a victim: its report names the place of its wait, not a culprit.
    """
    reports = in_order(history, (lived for lived in history.last if lived.report is not None), _report_time)
    if not reports:
        return None
    own = [lived for lived in reports if not _is_victim(lived)]
    accusers = [lived for lived in own if _accused(history, lived)]
    if accusers:
        accused = set().union(*(_accused(history, lived) for lived in accusers))
        said = f"is named by rank {accusers[0].rank}: {reported(accusers[0])}"
        return _name([lived for lived in history.last if lived.rank in accused], said)
    if own:
        same = [lived for lived in own if _what_and_where(lived) == _what_and_where(own[0])]
        if len(same) == len(history.last):
            odd = _told_otherwise(history)
            if odd is not None:
                return odd
        return _name(same, f"reported {reported(own[0])} at step {where_at(own[0])}")
    return _behind_a_victim(history, reports[0])


def _accused(history: History, lived: RankHistory) -> set[int]:
    """Return the other ranks of the job that a report names."""
    named = {int(number) for numbers in NAMED.findall(reported(lived)) for number in re.findall(r"\d+", numbers)}
    return named & {peer.rank for peer in history.last} - {lived.rank}


def _behind_a_victim(history: History, victim: RankHistory) -> Blame:
    """Blame the ranks that had ended before the victim's report; if it waited in vain, those that did not come."""
    others = [p for p in history.last if p.rank != victim.rank]
    before = _report_time(victim) - error_of(history, victim)
    ended = [p for p in others if p.report is None and _exit_time(history, p) < before]
    through = [p for p in ended if p.finished]
    if ended != through:
        return _name(ended, f"had ended when rank {victim.rank} lost its connection")
    behind = [p for p in others if len(p.points("collective")) < len(victim.points("collective"))]
    if behind and TIMED_OUT.search(reported(victim)):
        op = victim.points("collective")[-1].get("op", "a collective")
        return _name(behind, f"did not come to {op} at step {where_at(victim)}, where rank {victim.rank} waited")
    if LOST.search(reported(victim)):
        unlike = _unlike_its_steps(history) or _through_with_its_work(behind, victim)
        if unlike is not None:
            return unlike
    if through:
        return _name(through, f"had ended when rank {victim.rank} lost its connection")
    if LOST.search(reported(victim)):
        link = f"the link between {name_ranks([p.rank for p in history.last])}" if len(others) == 1 else "a link"
        return Blame((), f"{link}: rank {victim.rank} lost its connection while every other rank still ran")
    return Blame((), f"rank {victim.rank} was the first to report ({reported(victim)}), and no peer had ended before")


def _through_with_its_work(behind: Sequence[RankHistory], victim: RankHistory) -> Blame | None:
    """Blame the ranks that came to their end without an error, after fewer collectives than the victim has called.

    A rank that leaves its group closes its connections before its process ends, so the order of the two ends says
    nothing. A link that is cut is lost by both of its ends, and neither would be through.
    """
    left = [lived for lived in behind if lived.finished]
    if not left:
        return None
    fewest, called = (len(lived.points("collective")) for lived in (left[0], victim))
    many = f"{fewest} collective{'s' if fewest != 1 else ''}"
    last = victim.points("collective")[-1]
    where = f" ({last['site']})" if last.get("site") else ""
    calls = f"rank {victim.rank} called {SPOKEN.get(last.get('op', ''), 'one')}{where} as number {called}"
    return _name(left, f"was through with its work after {many}, when {calls}{_passes_alone(left[0], victim)}")


def _passes_alone(left: RankHistory, victim: RankHistory) -> str:
    """Say in which step only one of two ranks made a forward pass without a backward one, as one that skips a batch."""
    passes = [{lived.rank: _passes(lived, step) for lived in (left, victim)} for step in range(1, left.last_step + 1)]
    step = next((at for at, made in enumerate(passes, 1) if len(set(made.values())) > 1), 0)
    # The first step may have a pass to initialise the model. Of several kinds of steps, nothing is known.
    for lived in (left, victim) if step else ():
        forward, backward = passes[step - 1][lived.rank]
        other = passes[step - 1][left.rank if lived is victim else victim.rank]
        if forward > backward == other[0] == other[1]:
            return f"; rank {lived.rank} had made {forward} forward passes and {backward} backward in step {step}"
    return ""


def _passes(lived: RankHistory, step: int) -> tuple[int, int]:
    """Return how many forward and backward passes a rank made in a step."""
    forward, backward = (sum(e["step"] == step for e in lived.points(name)) for name in ("forward", "backward"))
    return forward, backward


def _unlike_its_steps(history: History) -> Blame | None:
    """Blame the ranks with a whole step that had other collectives than their earlier ones, where the others' had not.

    Off by one, a collective pairs with the next one of its kind, and only the last one finds nobody: the connection is
    lost when the rank that is through with its work leaves.
    """
    ways = {lived.rank: _collectives_of_steps(lived) for lived in history.last}
    known: dict[int, set[tuple[Any, ...]]] = {rank: set() for rank in ways}
    for step in range(1, min((lived.last_step for lived in history.last), default=0) + 1):
        made = {rank: tuple(way.get(step, ())) for rank, way in ways.items()}
        odd = [rank for rank, calls in made.items() if known[rank] and calls not in known[rank]]
        for rank, calls in made.items():
            known[rank].add(calls)
        if odd:
            # If all ranks are odd, the program itself has changed its collectives.
            return Blame(tuple(odd), f"made other collectives at step {step} than before") if odd != [*ways] else None
    return None


def _collectives_of_steps(lived: RankHistory) -> dict[int, list[tuple[Any, ...]]]:
    """Return by step what collectives a rank made, in order."""
    made: dict[int, list[tuple[Any, ...]]] = {}
    for event in lived.points("collective"):
        told = tuple(str(event.get(name)) for name in ("op", "group", "shapes", "root", "peer"))
        made.setdefault(int(event["step"]), []).append(told)
    return made


def _does_not_come(history: History, findings: Sequence[Finding]) -> Blame | None:
    """Blame, of ranks that made no progress, those with whom it lies."""
    known = {lived.rank for lived in history.last}
    for event in history.seen("hung"):
        if event["attempt"] == _last(history):
            peers = [rank for rank in event.get("peers") or () if rank in known]
            apart = any(one.get("lacks") for one in event["waiting"])
            why = "nothing shows which of them went another way" if apart else "nothing shows for whom"
            nothing = f"{name_ranks(sorted(event['ranks']))} waited, and {why}"
            return Blame(tuple(peers), event.get("shown_by") or nothing)
    return None


def _objected_to(history: History, findings: Sequence[Finding]) -> Blame | None:
    """Blame the ranks of the first finding, unless they are all ranks of the job and none stands out."""
    if not findings:
        return None
    first = findings[0]
    everyone = len(history.last) > 1 and len(first.ranks) == len(history.last)
    odd = _told_otherwise(history) if everyone else None
    if odd is not None:
        return odd
    if first.ranks and (not everyone or first.cause in _BETWEEN_RANKS):
        return Blame(first.ranks, first.sentence())
    return Blame((), f"no rank stands out: {first.sentence()}")


def _told_otherwise(history: History) -> Blame | None:
    """Blame, where all ranks are alike, those that told something else than most, under one name in one step."""
    told: dict[tuple[str, int], dict[int, str]] = {}
    for lived in history.last:
        for event in lived.of_kind("told"):
            said = json.dumps(event["values"], sort_keys=True)
            told.setdefault((event["name"], event["step"]), {}).setdefault(lived.rank, said)
    for (name, step), values in sorted(told.items(), key=lambda item: item[0][1]):
        apart = outside_majority(values)
        if len(values) == len(history.last) and 0 < len(apart) < len(values):
            return Blame(tuple(apart), f"told another {name} than the others at step {step}")
    return None


def _peer(history: History, why: str, reason: str) -> Blame | None:
    """Blame the peers that hung events of the last attempt name."""
    events = [e for e in history.seen("hung") if e["attempt"] == _last(history) and e["why"] == why]
    peers = sorted({p for e in events for p in e["peers"]})
    return Blame(tuple(peers), reason) if peers else None


def _is_victim(lived: RankHistory) -> bool:
    """Return whether what a rank reports is the loss of another one."""
    said = reported(lived)
    return bool(LOST.search(said) or TIMED_OUT.search(said))


def _what_and_where(lived: RankHistory) -> tuple[str, int]:
    return _reported_type(lived), where_at(lived)


def _reported_type(lived: RankHistory) -> str:
    """Return the type of the exception that a rank reported; empty if it reported none."""
    return lived.report["type"] if lived.report is not None else ""


def _name(guilty: Sequence[RankHistory], reason: str) -> Blame:
    return Blame(tuple(sorted(lived.rank for lived in guilty)), reason)


def _last(history: History) -> int:
    return history.attempts[-1]


def _report_time(lived: RankHistory) -> float:
    assert lived.report is not None
    return lived.report["t"]


def _exit_time(history: History, lived: RankHistory) -> float:
    """Return when the Conductor saw the rank end; infinite if it did not."""
    position = history.exit_position(lived.attempt, lived.rank)
    return float(history.conductor[position]["t"]) if position is not None else float("inf")
