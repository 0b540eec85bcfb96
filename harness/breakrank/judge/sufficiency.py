"""The reasons why nothing can be said of a run: a record with gaps, too little that was seen, a strike that missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from breakrank.analysis import endings
from breakrank.history.reader import History, signal_name
from breakrank.judge.unseen import why_no_rank_came
from breakrank.runners import find_runner
from breakrank.verdict import Ended, Finding, name_ranks
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.clock import MAIN
from breakrank_agent.protocol.events import LauncherEvent, PointEvent
from breakrank_agent.protocol.fault import Strike

#: Kinds of events whose text may be cut without loss: nothing is judged by it.
_PROSE = ("report", "raised", "note")
#: Ends of ranks that say something, whatever else was seen.
_SPEAKING = frozenset((Ended.REPORTED, Ended.CRASHED, Ended.HUNG))


@dataclass
class Account:
    """The reasons why nothing can be said, and remarks, gathered before the rules are read."""

    void: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def see_enough(history: History, control: History | None, plan: Plan, account: Account) -> None:
    """Give the reasons why too little was seen."""
    account.void += say_damage(history)
    account.void += say_damage(control, " of the control") if control is not None else ()
    if not history.attempts:
        account.void.append(why_no_rank(history, plan))
    for attempt in history.attempts:
        for rank in range(history.world(attempt) if find_runner(plan.runner).joins or plan.elastic else plan.ranks):
            lived = history.ranks.get((attempt, rank))
            if lived is None or not lived.of_kind("rank"):
                account.void.append(f"rank {rank} never started in attempt {attempt}")
            elif lived.status is None:
                account.void.append(f"rank {rank} has no end on record in attempt {attempt}")
    for launcher in history.seen("launcher"):
        if launcher["ended"] and not history.seen("hung"):
            account.void.append("the launcher had to be ended by us: its ranks had ended, or none had come")
        elif history.attempts and account.void:
            account.void += launcher["closed"]
    _see_steps_alike(history, control, plan, account)
    for lost in history.seen("dropped"):
        if lost["count"]:
            account.void.append(f"{lost['count']} records of rank {lost['rank']} were dropped")
    for lived in history.ranks.values():
        cut = [e for e in lived.events if "cut" in e and e["kind"] not in _PROSE]
        if cut:
            account.void.append(f"a record of rank {lived.rank} was too long and lost its {cut[0]['cut']}")


def _see_steps_alike(history: History, control: History | None, plan: Plan, account: Account) -> None:
    """Note who had to go past the plan's last step; a strike cannot be told from that where the control had to, too."""
    unlike = {}
    for held in history.seen("held"):
        waiting = name_ranks(held["waiting"])
        said = f"rank {held['rank']} had made its {plan.until} steps while {waiting} waited for it"
        unlike[held["rank"]] = f"{said}, and {'went on' if held['on'] else 'ended'}"
    account.notes += unlike.values()
    if unlike and plan.strikes and control is not None and control.seen("held"):
        account.void.append(
            f"ranks do not count steps alike, in the control neither: {next(iter(unlike.values()))}; name by "
            "--scenario-step=module:function what ends one"
        )


def see_something(
    history: History, control: History | None, plan: Plan, last: dict[int, Ended], account: Account
) -> None:
    """Give the reason why nothing was seen of ranks that ended well: an end of another kind is a fact to judge."""
    if not history.attempts or not _SPEAKING.isdisjoint(last.values()) or history.launcher_failures:
        return
    if not any(_is_seen(side) for side in (history, control) if side is not None):
        named = f"{plan.step} never returned, and " if plan.step else ""
        account.void.append(
            f"nothing was seen: {named}between its start and its end no rank loaded a batch, called a module, took "
            "gradients, stepped an optimizer, called a collective, or saved or restored a file"
        )
    elif plan.step and not any(_steps_seen(side) for side in (history, control) if side is not None):
        account.notes.append(f"no step was seen: {plan.step} never returned")


def _is_seen(history: History) -> bool:
    """Return whether some rank did what is on record, beyond its start and its end."""
    return any(
        (e["kind"] == "point" and e["point"] not in ("start", "end")) or e["kind"] == "told" or e.get("state")
        for lived in history.ranks.values()
        for e in lived.events
    )


def hear_some(
    plan: Plan,
    abstained: Mapping[str, str],
    findings: Sequence[Finding],
    silent: Collection[str],
    last: dict[int, Ended],
    account: Account,
) -> None:
    """Give the reason why a case cannot be judged, if none of its scenario's oracles did, and no rank failed.

    A script's shape is its own: the oracles that have nothing to judge in it are those that abstained.
    """
    asked = [name for name in plan.oracles if name not in silent]
    if plan.command or findings or not _SPEAKING.isdisjoint(last.values()):
        return
    if set(abstained).issuperset(asked):
        said = "; ".join(f"{name}: {abstained[name]}" for name in asked)
        account.void.append(f"every oracle abstained: {said}")


def say_damage(history: History, whose: str = "") -> Iterator[str]:
    """Say whose record is damaged: it was read only as far as that."""
    for event in history.seen("damaged"):
        who = "the Conductor" if event["rank"] is None else f"rank {event['rank']}"
        yield f"the record of {who}{whose} is damaged: {event['why']}"


def why_no_rank(history: History, plan: Plan) -> str:
    """Say why there is no rank: none was started, or none of a launcher's processes could be entered."""
    launcher = history.seen("launcher")
    if not launcher:
        return "no rank was started"
    closed = "; ".join(launcher[-1]["closed"])
    hint = "ranks are Python processes with RANK and WORLD_SIZE that import torch, or call init_process_group"
    said = f" ({launcher[-1]['said'].splitlines()[0]})" if launcher[-1].get("said") else ""
    left = f"it {left_words(launcher[-1])} before{said}" if launcher[-1]["status"] else ""
    if launcher[-1]["ended"]:
        left = f"none came within the deadline of {plan.deadline_s:g} s, which may be too short; else, {hint}"
    seen = why_no_rank_came(history, plan, closed or left or hint)
    return f"no rank of '{' '.join(plan.command)}' called home: {seen}"


def left_words(launcher: LauncherEvent) -> str:
    """Say how a launcher ended, and whom it blames."""
    status, blames = launcher["status"] or 0, launcher["blames"]
    how = f"was killed by {signal_name(-status)}" if status < 0 else f"ended with exit code {status}"
    return f"{how}, and blames {name_ranks(blames)}" if blames else how


def _steps_seen(history: History) -> bool:
    """Return whether some rank came to the end of a step."""
    return any(lived.last_step for lived in history.ranks.values())


def see_strikes(history: History, plan: Plan, ends: dict[int, dict[int, Ended]], account: Account) -> None:
    """Check that every strike fired and landed on each of its ranks; one that came too late is a note."""
    for index, strike in enumerate(plan.strikes):
        attempt = strike.trigger.attempt
        name = f"strike {index} ({strike.words()})"
        if not strike.ranks:
            account.void.append(f"{name} names no ranks: the plan was not resolved")
        for rank in strike.ranks:
            on = f" on rank {rank}" if len(strike.ranks) > 1 else ""
            landed = endings.landed(history, attempt, rank)
            missed = _why_missed(history, index, rank)
            account.void += [
                f"{name} could not be undone{on}: {e['why']}"
                for e in history.seen("strike")
                if e["phase"] == "unhealed" and (e["strike"], e["rank"]) == (index, rank)
            ]
            if any(e["strike"] == index for e in landed) and not missed:
                continue
            if landed and ends.get(attempt, {}).get(rank) is Ended.STRUCK:
                first = landed[0]["strike"]
                account.notes.append(f"{name} was overtaken: strike {first} had struck rank {rank} before")
            elif _fired(history, index, attempt, rank):
                account.void.append(f"{name} fired{on}, but did not land{missed}")
            else:
                account.void.append(f"{name} never fired{on}: {_what_there_is(history, strike, rank)}")


def _fired(history: History, index: int, attempt: int, rank: int) -> bool:
    """Return whether the rank recorded that the strike fired."""
    lived = history.ranks.get((attempt, rank))
    return lived is not None and any(e["strike"] == index and e["phase"] == "fired" for e in lived.of_kind("strike"))


def _why_missed(history: History, index: int, rank: int) -> str:
    """Return what the Conductor says of a strike that missed a rank; a lasting one may miss when it strikes again."""
    events = [e for e in history.seen("strike") if e["phase"] == "missed"]
    said = [e["why"] for e in events if e["strike"] == index and e["rank"] == rank]
    return f": {said[0]}" if said else ""


def _what_there_is(history: History, strike: Strike, rank: int) -> str:
    """Say which points the rank does have at the strike's step, or in all where it names none."""
    trigger = strike.trigger
    lived = history.ranks.get((trigger.attempt, rank))
    if lived is None:
        return f"there was no attempt {trigger.attempt}" if rank < world_of(history) else f"there is no rank {rank}"
    points = [e for e in lived.of_kind("point") if e["seq"] == MAIN or e["point"] == "step"]
    if trigger.step is None:
        return f"rank {rank} has {_name_all(points, trigger.point)} in all"
    there = [e for e in points if e["step"] == trigger.step]
    if there:
        return f"rank {rank} at step {trigger.step} has {_name_all(there, trigger.point)}"
    if not lived.last_step and points:
        return f"rank {rank} has no steps, but {_name_all(points, trigger.point)}; a trigger without a step strikes one"
    return f"rank {rank} came to step {endings.where_at(lived)}"


def _name_all(points: Sequence[PointEvent], sought: str) -> str:
    """Name the points, each with its number of visits."""
    visits = Counter(e["point"] for e in points)
    return ", ".join(_name_visits(point, count, sought) for point, count in visits.items())


def _name_visits(point: str, count: int, sought: str) -> str:
    """Name a point, with its number of visits where it is the one sought, or there are several."""
    if count > 1:
        return f"{point} ({count} visits)"
    return f"{point} (1 visit)" if point == sought else point


def world_of(history: History) -> int:
    """Return how many ranks the job had."""
    return 1 + max((rank for _, rank in history.ranks), default=-1)
