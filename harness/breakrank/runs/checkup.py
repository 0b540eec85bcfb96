"""A check-up: a script that nobody has struck runs three times undisturbed, each time with other evidence.

A finding counts that one run shows in itself. A difference between two runs is no fault by itself: the script is then
not reproducible, and results are compared with nothing.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from breakrank.analysis.draws import trained_loads
from breakrank.errors import BreakrankError
from breakrank.history.reader import History
from breakrank.judge.run_digest import Difference, first_difference
from breakrank.oracles import Abstain, Terms, all_oracles
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import DEFAULT_ORACLES, Job, Scenario
from breakrank.plan.script import is_script
from breakrank.runners import PLAIN
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request, Watch
from breakrank.runs.result import Result
from breakrank.runs.retention import hold
from breakrank.runs.saved_run import SavedRun, judge_saved, load_run
from breakrank.verdict import Outcome, Verdict, listed, name_ranks
from breakrank_agent import faults
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.trigger import at

#: The scenario that a check-up's runs are of.
CHECKUP = "checkup"
#: Seconds without a point that are a hang. Most hangs are proven, and a script may prepare its data for minutes.
DEADLINE_S = 300.0
LIGHT, CONTENTS, CENSUS, REFERENCE, RESUME = "light", "contents", "census", "reference", "resume"
#: The evidence of each run.
EVIDENCE = {
    LIGHT: ("crashes",),
    CONTENTS: ("phases", "accesses", "contents", "crashes"),
    CENSUS: ("census", "crashes"),
    REFERENCE: ("norms",),
    RESUME: ("crashes",),
}
#: The share of the budget of each run, relative to the others.
_SHARES = {LIGHT: 1.0, CONTENTS: 2.0, CENSUS: 2.5, REFERENCE: 1.0, RESUME: 1.5}
#: The runs that follow a light one that went well.
_ALL = (CONTENTS, CENSUS)
#: The time of a step of each of the others, in steps of the light run, as a rule.
_TIMES = {CONTENTS: 2.0, CENSUS: 2.5}
#: Why nothing can be said of samples after one run.
_ONE_RUN = "it takes two runs to compare samples"
#: The oracle of results, which are compared with nothing.
_NOT_ASKED = ("control",)


@dataclass(frozen=True)
class Order:
    """The order for a check-up: the plan of its light run, and the folder of the script.

    `reference` is the command for the same training as one rank, empty if there is none. `resume` is the command that
    goes on after the ranks were killed, None if that is not tried. The whole takes at most `budget_s` seconds, and then
    to the end of a step.
    """

    plan: Plan
    where: Path
    reference: tuple[str, ...] = ()
    resume: tuple[str, ...] | None = None
    budget_s: float = math.inf

    @property
    def names(self) -> list[str]:
        """The runs that are asked for, in the order in which they are made."""
        asked = {REFERENCE: bool(self.reference), RESUME: self.resume is not None}
        return [name for name in _SHARES if asked.get(name, True)]


@dataclass(frozen=True)
class Look:
    """One run of a check-up."""

    name: str
    saved: SavedRun
    verdict: Verdict
    seconds: float

    @property
    def result(self) -> Result:
        """The run as others know it."""
        return Result(self.saved.plan, self.verdict, self.saved.folder, self.seconds)

    @property
    def failed(self) -> bool:
        """True if the job did not come to its end by itself: it hung, or a rank died or reported."""
        ends = (Outcome.HUNG, Outcome.CRASHED, Outcome.DETECTED)
        return self.verdict.outcome in ends or bool(self.verdict.reported or self.verdict.crashed)

    @property
    def cut(self) -> bool:
        """True if the ranks were ended at the end of a step, as the time was over."""
        ends = (lived.end for lived in self.saved.history.last)
        return self.steps != self.saved.plan.until and any(end is not None and end["how"] == "steps" for end in ends)

    @property
    def steps(self) -> int:
        """The most steps that one of the ranks made."""
        return max((lived.last_step for lived in self.saved.history.last), default=0)


@dataclass(frozen=True)
class Checkup:
    """The result of a check-up: its runs, and what they say together.

    `parted` is where two undisturbed runs part first, None if they do not; `samples` says why nothing can be said of
    the samples, and is empty if each run was trained on the same; `unresumed` why no run was killed and started again,
    though it was asked for.
    """

    order: Order
    looks: tuple[Look, ...]
    parted: Difference | None = None
    samples: str = _ONE_RUN
    reference: Look | None = None
    resumed: Look | None = None
    unresumed: str = ""
    seconds: float = 0.0

    def look(self, name: str) -> Look | None:
        """Return the run of that name, if there was one."""
        return next((look for look in self.every if look.name == name), None)

    @property
    def every(self) -> tuple[Look, ...]:
        """All runs, in the order in which they were made."""
        return (*self.looks, *(look for look in (self.reference, self.resumed) if look is not None))


def light_plan(command: Sequence[str], choices: Choices, deadline_s: float = DEADLINE_S) -> Plan:
    """Return the plan of the light run of a script, or of a command that starts its ranks. Raises `BreakrankError`."""
    oracles = tuple(name for name in DEFAULT_ORACLES if name not in _NOT_ASKED)
    scenario = Scenario((), Job(steps=0, data="", deadline_s=deadline_s), oracles=oracles, name=CHECKUP)
    (plan,) = make_script_plans(scenario, command, replace(choices, reference=())).values()
    return _with_evidence(plan, LIGHT)


def _unheard(text: str) -> None:
    """Tell nobody."""


def check_up(
    bench: Bench, order: Order, tell: Callable[[str], None] = _unheard, progress: Watch | None = None
) -> Checkup:
    """Make the runs of a check-up, one after the other, and judge them. Raises `BreakrankError` if none can be made.

    `tell` is told in lines what will be done, and how long it takes.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as held:
        runs = _Runs(bench, order, progress, held)
        tell(_announced(order.plan))
        light = runs.make(order.plan, LIGHT)
        names = _further(light)
        if names:
            tell(_how_long(light, names))
        for name in names:
            runs.make(_plan_after(light, name, bool(order.reference)), name, 0 if light.cut else light.steps)
        reference = runs.refer(light) if order.reference and names == _ALL else None
        looks = runs.judged(reference)
        resumed, unresumed = runs.resume(looks) if order.resume is not None else (None, "")
    return Checkup(
        order=order,
        looks=looks,
        parted=_parting(looks),
        samples=_samples(looks),
        reference=reference,
        resumed=resumed,
        unresumed=unresumed,
        seconds=time.monotonic() - began,
    )


def _announced(plan: Plan) -> str:
    """Say what will be done, before it is."""
    who = f"as {plan.ranks} rank{'s' * (plan.ranks != 1)}" if is_script(plan.command) else "with the ranks it starts"
    until = f", each time for {plan.until} steps" if plan.until else ""
    return (
        f"{' '.join(plan.command)} runs three times {who} in a private view of this folder{until}, and nothing is "
        "broken: first as fast as it can, then with the contents of collectives, reads and writes on record, then "
        "with a count of what stays alive"
    )


def _how_long(light: Look, names: Sequence[str]) -> str:
    """Say how long the first run took, and what the others will take."""
    moments = [e["t"] for lived in light.saved.history.last for e in lived.events if e["step"] > 0]
    trained = max(moments) - min(moments) if moments else 0.0
    about = sum(light.seconds + trained * (_TIMES[name] - 1) for name in names)
    runs = "the two others take" if len(names) > 1 else "the other one takes"
    return f"the first run took {light.seconds:.1f} s for {light.steps} steps; {runs} about {about:.0f} s"


def _further(light: Look) -> tuple[str, ...]:
    """Return which runs come after the light one.

    Of a script that fails by itself its own error is the answer. Only a signal is looked into further: reads and writes
    on record may show whose memory it was.
    """
    if light.failed:
        return _ALL[:1] if light.verdict.outcome is Outcome.CRASHED else ()
    return () if light.verdict.outcome is Outcome.VOID else _ALL


def _plan_after(light: Look, name: str, refers: bool) -> Plan:
    """Return the plan of a later run, told by the first one; with norms if it is compared with one rank's.

    Replicas that part between two digests of the first run are looked at closely there; else each step is.
    """
    plan = _with_evidence(light.saved.plan, name)
    if name != CONTENTS:
        return plan
    plan = replace(plan, evidence=(*plan.evidence, "norms")) if refers else plan
    apart = [f.step for f in light.verdict.findings if f.oracle == "replicas" and f.step]
    if not apart:
        return replace(plan, digests="every")
    steps = [int(e["step"]) for lived in light.saved.history.last for e in lived.payloads("step")]
    before = max((step for step in steps if step < apart[0]), default=0)
    return replace(plan, closely=(before + 1, apart[0]))


def _with_evidence(plan: Plan, name: str) -> Plan:
    """Return the plan of one of the three runs."""
    case = plan.case.removesuffix(f"-{LIGHT}")
    return replace(plan, case=f"{case}-{name}", digests="sparse", evidence=EVIDENCE[name])


def _reference_plan(plan: Plan, command: tuple[str, ...]) -> Plan:
    """Return the plan of the same training as one rank."""
    return replace(_with_evidence(plan, REFERENCE), command=command, ranks=1, runner=PLAIN, digests="every")


def _resume_plan(looks: Sequence[Look], command: tuple[str, ...]) -> Plan:
    """Return the plan of a run that is killed in the middle, after its first checkpoint, and started again.

    Raises `BreakrankError` if there is no such middle.
    """
    light = looks[0]
    last = {lived.last_step for lived in light.saved.history.last}
    steps = min(last, default=0)
    if len(last) != 1 or steps < 2:
        made = listed(map(str, sorted(last)))
        raise BreakrankError(f"the ranks made {made} steps, and it takes two that all of them made")
    saves = (int(e["done"]) for lived in light.saved.history.last for e in lived.payloads("save"))
    saved = min((done for done in saves if 0 < done < steps), default=0)
    trigger = at(rank="all", step=min(max(steps // 2, saved + 1), steps - 1), point="step")
    plan = _with_evidence(light.saved.plan, RESUME)
    strike = Strike(faults.Kill(), trigger, tuple(range(plan.ranks)))
    return replace(plan, resume=command, restarts=1, control="same", strikes=(strike,))


class _Runs:
    """Makes the runs of one check-up, and judges them as each other's controls."""

    def __init__(self, bench: Bench, order: Order, progress: Watch | None, held: contextlib.ExitStack) -> None:
        self._bench = bench
        self._order = order
        self._progress = progress
        self._held = held
        self._made: list[tuple[Look, list[str]]] = []
        self._began = time.monotonic()

    def make(self, plan: Plan, name: str, steps: int = 0) -> Look:
        """Make one run, and judge it by itself."""
        began = time.monotonic()
        request = Request(plan, progress=self._progress, where=self._order.where, most_s=self._time_for(name))
        folder, void = self._bench.record(request, name, steps)
        self._held.callback(os.close, hold(folder))
        saved = load_run(folder)
        look = Look(name, saved, judge_saved(saved, void), time.monotonic() - began)
        self._made.append((look, void))
        return look

    def _time_for(self, name: str) -> float:
        """Return the share of a run in what is left of the budget, in seconds."""
        left = self._order.budget_s - (time.monotonic() - self._began)
        names = self._order.names
        return max(0.0, left) * _SHARES[name] / sum(_SHARES[other] for other in names[names.index(name) :])

    def refer(self, light: Look) -> Look:
        """Run the same training as one rank."""
        plan = _reference_plan(light.saved.plan, self._order.reference)
        look = self.make(plan, REFERENCE, 0 if light.cut else light.steps)
        self._made.pop()
        look.result.save()
        return look

    def resume(self, looks: Sequence[Look]) -> tuple[Look | None, str]:
        """Kill the ranks in the middle and start them again, and compare the end with that of two undisturbed runs.

        Return the run, or why there is none.
        """
        if len(looks) < 2 or any(look.failed or look.cut for look in looks):
            return None, "there are no two undisturbed runs to compare with, each to its end"
        try:
            plan = _resume_plan(looks, self._order.resume or ())
        except BreakrankError as error:
            return None, str(error)
        look = self.make(plan, RESUME, looks[0].steps)
        for other, name in zip(looks[:2], ("control", "control-again"), strict=True):
            _lay_beside(look.saved.folder, other.saved.folder, name)
        _, void = self._made.pop()
        saved = replace(look.saved, control=looks[0].saved.history, second=looks[1].saved.history)
        look = replace(look, saved=saved, verdict=judge_saved(saved, void))
        look.result.save()
        return look, ""

    def judged(self, reference: Look | None) -> tuple[Look, ...]:
        """Judge each run beside another one, that of the contents beside the reference as well, and save it."""
        looks = []
        for look, void in self._made:
            peer = next((other for other, _ in self._made if other is not look), None)
            if peer is not None:
                _lay_beside(look.saved.folder, peer.saved.folder)
                saved = replace(look.saved, control=peer.saved.history)
                if reference is not None and not reference.failed and look.name == CONTENTS:
                    _lay_beside(look.saved.folder, reference.saved.folder, REFERENCE)
                    saved = replace(saved, reference=reference.saved.history)
                look = replace(look, saved=saved, verdict=judge_saved(saved, void))
            look.result.save()
            looks.append(look)
        return tuple(looks)


def _lay_beside(folder: Path, peer: Path, name: str = "control") -> None:
    """Lay the records of another run into a run directory: whoever judges it again finds them there."""
    left = ("work", "control", "control-again", REFERENCE, "verdict.json*")
    shutil.copytree(peer, folder / name, ignore=shutil.ignore_patterns(*left))


def _parting(looks: Sequence[Look]) -> Difference | None:
    """Return where two of the undisturbed runs part first; None if all of them come to the same, or are cut."""
    if any(look.cut for look in looks):
        return None
    first, *others = (look.saved.history for look in looks)
    return min((d for other in others if (d := first_difference(first, other, results=True))), default=None)


def _samples(looks: Sequence[Look]) -> str:
    """Say why nothing can be said of the samples; empty if each run was trained on the same ones."""
    first, *others = (look.saved.history.without_faults() for look in looks)
    if not others:
        return _ONE_RUN
    if any(look.cut for look in looks):
        return "the runs were ended early, and are not compared"
    return next(filter(None, (*(_samples_of(other, first) for other in others), *map(_shared, others))), "")


def _shared(history: History) -> str:
    """Say that several ranks, or several steps, were trained on one batch: that may be meant, as of a divided model."""
    batches = {(lived.rank, int(e["step"])): e.get("batch") for lived in history.last for e in trained_loads(lived)}
    for (_, step), batch in batches.items():
        ranks = [rank for (rank, at), other in batches.items() if at == step and batch and other == batch]
        if len(ranks) > 1:
            return f"{name_ranks(ranks)} had one batch at step {step}: nothing says whether each was to have its own"
    for rank in {rank for rank, _ in batches}:
        own = [batch for (who, _), batch in batches.items() if who == rank and batch]
        if len(own) > 2 and len(set(own)) == 1:
            return f"rank {rank} had one batch at all {len(own)} steps: nothing says whether that is all its data"
    return ""


def _samples_of(one: History, other: History) -> str:
    try:
        findings = all_oracles()["samples"](one, other, Terms(len(one.last), 0))
    except Abstain as reason:
        return str(reason)
    return f"they differ from run to run: {findings[0].sentence()}" if findings else ""
