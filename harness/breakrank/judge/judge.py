"""Judge the records of a run: reasons to say nothing, the objections of the oracles, and the rule that matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from breakrank.analysis import endings
from breakrank.analysis.lineage import lineage
from breakrank.history.reader import History, RankHistory, signal_name
from breakrank.judge.blame import accusations, blame
from breakrank.judge.run_digest import digest
from breakrank.oracles import Abstain, Terms, all_oracles
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runners import find_runner
from breakrank.verdict import Blame, Ended, Finding, Verdict, decide, name_ranks
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import LauncherEvent
from breakrank_agent.protocol.fault import Strike

#: Kinds of events whose text may be cut without loss: nothing is judged by it.
_PROSE = ("report", "raised", "note")
#: Causes that say no more than that ranks had to be ended.
_WAITS = (
    *(
        "peer stopped",
        "peer ended",
        "deadlock",
        "endless training",
        "no progress",
        "participant missing",
        "crossed process groups",
    ),
    *("unmatched receive", "unmatched send", "blocked in a lock", "lock cycle", "rank missing", "duplicate rank"),
    *("world size mismatch", "master mismatch"),
    *("backend mismatch", "interface mismatch", "connection held by orphan", "unreachable"),
)


@dataclass
class Account:
    """The reasons why nothing can be said, and remarks, gathered before the rules are read."""

    void: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def judge(
    history: History,
    control: History | None,
    plan: Plan,
    void: Sequence[str] = (),
    reference: History | None = None,
    silent: Collection[str] = (),
    compared: Collection[str] | None = None,
) -> Verdict:
    """Return the verdict on a saved run.

    `control` is what the run is compared with, `reference` the same training as one rank; None where there is none.
    `void` holds reasons known before why nothing can be said: the control failed, a replay diverged. Oracles in
    `silent` are not asked; every other one judges what there is, with the control if it is in `compared` (None: all
    are). Of a case, which has a record, only the oracles that
    its scenario names decide the outcome. Only this function and those it calls read fault events; the oracles and
    blame get the history without them.
    """
    account = Account(void=list(void))
    ends = {attempt: endings.classify(history, attempt) for attempt in history.attempts}
    _see_enough(history, control, plan, account)
    _see_strikes(history, plan, ends, account)
    findings, abstained = _consult(history, control, reference, plan, silent, account, compared)
    last = ends[history.attempts[-1]] if ends else {}
    if last and set(last.values()) == {Ended.STRUCK}:
        account.void.append("the injector ended every rank of the last attempt")
    judged = _set_aside(history, findings, last, account)
    named = [f for f in judged if plan.command or f.oracle in plan.oracles]
    also = [f for f in judged if f not in named]
    _remember(history, ends, account)
    account.notes.extend(_limits(history))
    launcher = history.launcher_failures
    return Verdict(
        outcome=decide(last, named, account.void, launcher_reported=bool(launcher)),
        findings=tuple(named),
        also=tuple(also),
        blame=blame(history.without_faults(), named) if ends else Blame(),
        latency_s=_latency(history),
        reported=(*_say(history.last, last, Ended.REPORTED), *(f"the launcher {_left(e)}" for e in launcher)),
        crashed=tuple(_say(history.last, last, Ended.CRASHED)),
        void=tuple(account.void),
        abstained=abstained,
        notes=tuple(account.notes),
        digest=digest(history),
        accused=tuple(one.words() for one in accusations(history.without_faults())),
    )


def _limits(history: History) -> Iterator[str]:
    """Yield notes on the limits of the record: those of ranks, children that are not watched, the private view."""
    limits = (e["text"] for lived in history.last for e in lived.of_kind("note") if e.get("limits"))
    yield from dict.fromkeys(limits)
    yield from _children_unseen(history)
    yield from (note for event in history.seen("view") for note in event["notes"])


def _see_enough(history: History, control: History | None, plan: Plan, account: Account) -> None:
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
    for held in history.seen("held"):
        account.void.append(
            f"rank {held['rank']} had made its {plan.until} steps while {name_ranks(held['waiting'])} waited for it: "
            "they do not count steps alike; name by --scenario-step=module:function what ends one"
        )
    for lost in history.seen("dropped"):
        if lost["count"]:
            account.void.append(f"{lost['count']} records of rank {lost['rank']} were dropped")
    for lived in history.ranks.values():
        cut = [e for e in lived.events if "cut" in e and e["kind"] not in _PROSE]
        if cut:
            account.void.append(f"a record of rank {lived.rank} was too long and lost its {cut[0]['cut']}")
    # A hang before the first step is a proven fact; anything else without a step is too little to judge.
    if not history.seen("hung") and not any(_steps_seen(side) for side in (history, control) if side is not None):
        account.void.append(f"no step was seen: {_why_no_step(history, plan)}")


def say_damage(history: History, whose: str = "") -> Iterator[str]:
    """Say whose record is damaged: it was read only as far as that."""
    for event in history.seen("damaged"):
        who = "the Conductor" if event["rank"] is None else f"rank {event['rank']}"
        yield f"the record of {who}{whose} is damaged: {event['why']}"


def _why_no_step(history: History, plan: Plan) -> str:
    """Say why no rank made a step: it failed before the first, or did not do what is taken for one."""
    failed = [lived for lived in history.last if lived.report is not None or (lived.status or 0) > 0]
    if failed:
        return f"rank {failed[0].rank} reported {endings.reported(failed[0])} before the first"
    unseen = "no rank stepped an optimizer or called breakrank_agent.step()"
    return f"{plan.step} never returned" if plan.step else unseen


def why_no_rank(history: History, plan: Plan) -> str:
    """Say why there is no rank: none was started, or none of a launcher's processes could be entered."""
    launcher = history.seen("launcher")
    if not launcher:
        return "no rank was started"
    closed = "; ".join(launcher[-1]["closed"])
    hint = "ranks are Python processes with RANK and WORLD_SIZE that import torch, or call init_process_group"
    left = f"it {_left(launcher[-1])} before" if launcher[-1]["status"] else ""
    if launcher[-1]["ended"]:
        left = f"none came within the deadline of {plan.deadline_s:g} s, which may be too short; else, {hint}"
    return f"no rank of '{' '.join(plan.command)}' called home: {closed or left or hint}"


def _left(launcher: LauncherEvent) -> str:
    """Say how a launcher ended, and whom it blames."""
    status, blames = launcher["status"] or 0, launcher["blames"]
    how = f"was killed by {signal_name(-status)}" if status < 0 else f"ended with exit code {status}"
    return f"{how}, and blames {name_ranks(blames)}" if blames else how


def _steps_seen(history: History) -> bool:
    """Return whether some rank entered the first step or a later one."""
    return any(e["step"] > 0 for lived in history.ranks.values() for e in lived.of_kind("point"))


def _see_strikes(history: History, plan: Plan, ends: dict[int, dict[int, Ended]], account: Account) -> None:
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
    """Say which points the rank does have at the strike's step."""
    trigger = strike.trigger
    lived = history.ranks.get((trigger.attempt, rank))
    if lived is None:
        return f"there was no attempt {trigger.attempt}" if rank < _world(history) else f"there is no rank {rank}"
    visits = Counter(e["point"] for e in lived.of_kind("point") if e["step"] == trigger.step)
    if not visits:
        return f"rank {rank} came to step {endings.where_at(lived)}"
    names = [_name_visits(point, count, trigger.point) for point, count in visits.items()]
    return f"rank {rank} at step {trigger.step} has {', '.join(names)}"


def _name_visits(point: str, count: int, sought: str) -> str:
    """Name a point, with its number of visits where it is the one sought, or there are several."""
    if count > 1:
        return f"{point} ({count} visits)"
    return f"{point} (1 visit)" if point == sought else point


def _world(history: History) -> int:
    """Return how many ranks the job had."""
    return 1 + max((rank for _, rank in history.ranks), default=-1)


def _consult(
    history: History,
    control: History | None,
    reference: History | None,
    plan: Plan,
    silent: Collection[str],
    account: Account,
    compared: Collection[str] | None,
) -> tuple[list[Finding], dict[str, str]]:
    """Ask every oracle, those of the plan first; return findings by attempt, step and that order, and who abstained."""
    bare = history.without_faults()
    model = control.without_faults() if control is not None else None
    # A user's script says nowhere how many steps it makes: its control does. Ranks need not make equally many: one may
    # be a parameter server, or have fewer batches than its peers.
    steps = plan.steps or max((lived.last_step for lived in (control.last if control is not None else ())), default=0)
    terms = Terms(plan.ranks or _world(history), steps, plan.tolerance, plan.deadline_s, reference)
    known = all_oracles()
    findings: list[Finding] = []
    abstained: dict[str, str] = {}
    for name in plan.oracles:
        if name not in known:
            account.void.append(f"there is no oracle {name!r}; oracles are {', '.join(known)}")
    for name in dict.fromkeys([*plan.oracles, *DEFAULT_ORACLES, *known]):
        if name not in known or name in silent:
            continue
        try:
            findings += known[name](bare, model if compared is None or name in compared else None, terms)
        except Abstain as reason:
            abstained[name] = str(reason)
        except Exception as error:
            account.void.append(f"the oracle {name} raised {type(error).__name__}: {error}")
    asked = [name for name in plan.oracles if name not in silent]
    if set(abstained).issuperset(asked) and not findings:
        said = "; ".join(f"{name}: {abstained[name]}" for name in asked)
        account.void.append(f"every oracle abstained: {said}")
    return sorted(findings, key=lambda f: (f.attempt, f.step)), abstained


def _set_aside(
    history: History, findings: Sequence[Finding], last: dict[int, Ended], account: Account
) -> list[Finding]:
    """Return the findings that the rules read, and make notes of the others.

    The others are those of earlier attempts, and waits of ranks that we ended because another rank had failed.
    """
    judged = []
    for finding in findings:
        waits = finding.cause in _WAITS
        if finding.attempt != history.attempts[-1]:
            account.notes.append(f"in attempt {finding.attempt}: {finding.sentence()}")
        elif waits and not any(last.get(rank) is Ended.HUNG for rank in finding.ranks):
            account.notes.append(finding.sentence())
        else:
            judged.append(finding)
    return judged


def _remember(history: History, ends: dict[int, dict[int, Ended]], account: Account) -> None:
    """Note how earlier attempts ended, what work was lost, and which ranks died after their work was over."""
    for attempt in history.attempts:
        earlier = attempt != history.attempts[-1]
        for lived in history.attempt(attempt):
            end = ends[attempt][lived.rank]
            if earlier:
                account.notes.append(f"in attempt {attempt}: {endings.describe(lived, end)}")
            elif (end is Ended.WELL and lived.status) or end in (Ended.STRUCK, Ended.COLLATERAL):
                account.notes.append(endings.describe(lived, end))
        if attempt:
            account.notes.extend(_work_lost(history, attempt))
    for event in history.seen("not_kept"):
        more = f", and {event['count'] - 1} more," if event["count"] > 1 else ""
        account.notes.append(f"{event['path']}{more} of the working folder is not kept: {event['why']}")
    for lost in history.seen("left_out"):
        account.notes.append(f"{lost['count']} records in the middle of rank {lost['rank']}'s history were not kept")


def _children_unseen(history: History) -> Iterator[str]:
    """Name the processes that ranks have started to be watched, and that no agent could enter."""
    for lived in history.last:
        begun = {e["seq"].partition("/")[0] for e in lived.events if e["kind"] == "sync"}
        for event in lived.of_kind("child"):
            if event["name"] not in begun:
                yield f"{event['name']} of rank {lived.rank} could not be watched"


def _work_lost(history: History, attempt: int) -> list[str]:
    """Say how many steps of the attempt before are not in what this one restored."""
    done = max((lived.last_step for lived in history.attempt(attempt - 1)), default=0)
    kept = [s.steps for s in lineage(history, attempt, 0) if s.attempt == attempt - 1]
    lost = done - sum(kept)
    return [f"{lost} of {done} steps of attempt {attempt - 1} were lost"] if lost > 0 else []


def _say(ranks: Sequence[RankHistory], ends: dict[int, Ended], end: Ended) -> list[str]:
    """Say how each rank with this end ended, in the order in which they did."""
    return [
        endings.describe(lived, end)
        for lived in sorted(ranks, key=lambda lived: lived.report["t"] if lived.report is not None else inf)
        if ends[lived.rank] is end
    ]


def _latency(history: History) -> float | None:
    """Return the seconds from the first strike fired to the first report after it."""
    fired = [e["t"] for lived in history.ranks.values() for e in lived.of_kind("strike") if e["phase"] == "fired"]
    reports = [lived.report["t"] for lived in history.ranks.values() if lived.report is not None]
    after = [t for t in reports if fired and t >= min(fired)]
    return float(min(after) - min(fired)) if after else None
