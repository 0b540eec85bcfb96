"""Judge the records of a run: reasons to say nothing, the objections of the oracles, and the rule that matches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from math import inf

from breakrank.analysis import endings, faint_gradients, rounding
from breakrank.analysis.apart import set_apart, without_match
from breakrank.analysis.lineage import lineage
from breakrank.analysis.moments import in_order
from breakrank.history.reader import History, RankHistory
from breakrank.judge.blame import accusations, blame
from breakrank.judge.consequences import without_consequences
from breakrank.judge.run_digest import digest
from breakrank.judge.sufficiency import Account, hear_some, left_words, see_enough, see_something, see_strikes, world_of
from breakrank.judge.unseen import note_unseen, say_unseen
from breakrank.oracles import Abstain, Terms, all_oracles
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.verdict import Ended, Finding, Verdict, decide
from breakrank_agent.plan import Plan

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
    *("unmatched receive", "unmatched send", "message cycle", "group mismatch"),
    *("blocked in a lock", "GIL deadlock", "lock cycle", "rank missing", "duplicate rank"),
    *("world size mismatch", "master mismatch"),
    *("backend mismatch", "interface mismatch", "connection held by orphan", "unreachable"),
)


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
    are). Only this function and those it calls read fault events; the oracles and blame get the history without them.
    """
    account = Account(void=list(void))
    ends = {attempt: endings.classify(history, attempt) for attempt in history.attempts}
    last = ends[history.attempts[-1]] if ends else {}
    see_enough(history, control, plan, account)
    see_something(history, control, plan, last, account)
    see_strikes(history, plan, ends, account)
    findings, abstained = _consult(history, control, reference, plan, silent, account, compared)
    hear_some(plan, abstained, findings, silent, last, account)
    account.void += say_unseen(history, findings)
    if last and set(last.values()) == {Ended.STRUCK}:
        account.void.append("the injector ended every rank of the last attempt")
    named, also = _by_record(history, plan, _set_aside(history, findings, last, account))
    _remember(history, ends, account)
    account.notes.extend((*_limits(history), *note_unseen(history, plan)))
    launcher = history.launcher_failures
    return Verdict(
        outcome=decide(last, named, account.void, launcher_reported=bool(launcher)),
        findings=tuple(named),
        also=tuple(also),
        blame=blame(history.without_faults(), named),
        latency_s=_latency(history),
        reported=(*_say(history, last, Ended.REPORTED), *(f"the launcher {left_words(e)}" for e in launcher)),
        heard=_heard(history.last, last),
        crashed=tuple(_say(history, last, Ended.CRASHED)),
        void=tuple(account.void),
        abstained=abstained,
        notes=tuple(account.notes),
        digest=digest(history),
        accused=tuple(one.words() for one in accusations(history.without_faults())),
    )


def _by_record(history: History, plan: Plan, judged: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that decide the outcome, and the others, each without what follows from the first ones.

    Of a case, which has a record, the oracles that its scenario names decide; of a user's script, all of them do.
    """
    named = [f for f in judged if plan.command or f.oracle in plan.oracles]
    also = [f for f in judged if f not in named]
    return without_consequences(history, named, named), without_consequences(history, also, named)


def _limits(history: History) -> Iterator[str]:
    """Yield notes on the limits of the record: those of ranks, children that are not watched, the private view."""
    limits = (e["text"] for lived in history.last for e in lived.of_kind("note") if e.get("limits"))
    yield from dict.fromkeys(limits)
    yield from _children_unseen(history)
    yield from (note for event in history.seen("view") for note in event["notes"])


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
    bare = set_apart(history.without_faults(), plan.apart)
    model = set_apart(control.without_faults(), plan.apart) if control is not None else None
    account.notes.extend(f"no parameter has a name like {one!r}" for one in without_match(bare, plan.apart))
    # A user's script says nowhere how many steps it makes: its control does. Ranks need not make equally many: one may
    # be a parameter server, or have fewer batches than its peers.
    steps = plan.steps or max((lived.last_step for lived in (control.last if control is not None else ())), default=0)
    terms = Terms(plan.ranks or world_of(history), steps, plan.tolerance, plan.deadline_s, reference)
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
    account.notes.extend(rounding.remarks(bare, model, terms.ranks, terms.steps) if model is not None else ())
    account.notes.extend(faint_gradients.remarks(bare.last) if reference is not None else ())
    return sorted(findings, key=partial(_order, findings)), abstained


def _order(findings: Sequence[Finding], finding: Finding) -> tuple[int, float, bool]:
    """Sort by attempt and step; last the result of a job that was resumed, which what else was found explains.

    Last, too, is a file that was written over: a rank notices that a step sooner or later, as the timing has it. At one
    step, gradients of replicas that differ are explained by what else was found, unless it is that the result is wrong.
    """
    late = finding.cause == "mapped file overwritten" or (finding.cause == "wrong result" and finding.attempt)
    there = {one.cause for one in findings if (one.attempt, one.step) == (finding.attempt, finding.step)}
    explained = finding.cause == "gradients differ" and not there <= {"gradients differ", "wrong result"}
    return finding.attempt, inf if late else finding.step, explained


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


def _say(history: History, ends: dict[int, Ended], end: Ended) -> list[str]:
    """Say how each rank with this end ended, in the order in which they did; ranks that say the same, by number.

    It is chance that one rank notices a thing before another one, and the sentence of a verdict is not to be.
    """
    by_time = in_order(history, history.last, lambda lived: lived.report["t"] if lived.report is not None else inf)
    said = list(dict.fromkeys(map(endings.reported, by_time)))
    ordered = sorted(history.last, key=lambda lived: (said.index(endings.reported(lived)), lived.rank))
    return [endings.describe(lived, end) for lived in ordered if ends[lived.rank] is end]


def _heard(ranks: Sequence[RankHistory], ends: dict[int, Ended]) -> str:
    """Return what the first of the ranks, by number, has reported, with its step; empty if none did."""
    for lived in sorted(ranks, key=lambda lived: lived.rank):
        if ends[lived.rank] is Ended.REPORTED:
            what = endings.reported(lived).partition(":")[0]
            return f"report: {what}, rank {lived.rank}, step {endings.where_at(lived)}"
    return ""


def _latency(history: History) -> float | None:
    """Return the seconds from the first strike fired to the first report after it."""
    fired = [e["t"] for lived in history.ranks.values() for e in lived.of_kind("strike") if e["phase"] == "fired"]
    reports = [lived.report["t"] for lived in history.ranks.values() if lived.report is not None]
    after = [t for t in reports if fired and t >= min(fired)]
    return float(min(after) - min(fired)) if after else None
