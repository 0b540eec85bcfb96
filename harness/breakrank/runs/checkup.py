"""A check-up: a script that nobody has struck runs three times undisturbed, each time with other evidence.

What one run finds in itself counts. What differs from run to run is no fault by itself: the script is then not
reproducible, and results are compared with nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from breakrank.history.reader import History
from breakrank.judge.run_digest import Difference, first_difference
from breakrank.oracles import Abstain, Terms, all_oracles
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import DEFAULT_ORACLES, Job, Scenario
from breakrank.plan.script import is_script
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request, Watch
from breakrank.runs.result import Result
from breakrank.runs.retention import hold
from breakrank.runs.saved_run import SavedRun, judge_saved, load_run
from breakrank.verdict import Outcome, Verdict
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.trigger import PlanError

#: The scenario that a check-up's runs are of.
CHECKUP = "checkup"
LIGHT, CONTENTS, CENSUS = "light", "contents", "census"
#: The evidence of each of the three runs.
EVIDENCE = {LIGHT: ("crashes",), CONTENTS: ("accesses", "contents", "crashes"), CENSUS: ("census", "crashes")}
#: How many times as long as in the light run a step of each of the others takes, as a rule.
_TIMES = {CONTENTS: 2.0, CENSUS: 2.5}
#: What is compared from run to run, or with a control that there is none of.
_NOT_ASKED = ("control",)


@dataclass(frozen=True)
class Order:
    """What is to be checked: the plan of its light run, and the folder of the script."""

    plan: Plan
    where: Path


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
    def steps(self) -> int:
        """The most steps that one of the ranks made."""
        return max((lived.last_step for lived in self.saved.history.last), default=0)


@dataclass(frozen=True)
class Checkup:
    """What came of a check-up: its runs, and what they say together.

    `parted` is where two undisturbed runs part first, None if they do not; `samples` says why nothing can be said of
    the samples, and is empty if each run was trained on the same.
    """

    order: Order
    looks: tuple[Look, ...]
    parted: Difference | None = None
    samples: str = ""
    seconds: float = 0.0

    def look(self, name: str) -> Look | None:
        """Return the run of that name, if there was one."""
        return next((look for look in self.looks if look.name == name), None)


def light_plan(command: Sequence[str], choices: Choices, deadline_s: float = 30.0) -> Plan:
    """Return the plan of the light run of a script, or of a command that starts its ranks. Raises `BreakrankError`."""
    oracles = tuple(name for name in DEFAULT_ORACLES if name not in _NOT_ASKED)
    scenario = Scenario((), Job(steps=0, data="", deadline_s=deadline_s), oracles=oracles, name=CHECKUP)
    (plan,) = make_script_plans(scenario, command, choices).values()
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
            runs.make(_plan_after(light, name), name, light.steps)
        looks = runs.judged()
    checkup = Checkup(order, looks, _parting(looks), _samples(looks), time.monotonic() - began)
    return checkup


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
        return (CONTENTS,) if light.verdict.outcome is Outcome.CRASHED else ()
    return () if light.verdict.outcome is Outcome.VOID else (CONTENTS, CENSUS)


def _plan_after(light: Look, name: str) -> Plan:
    """Return the plan of a later run, told by the first one.

    Replicas that part between two digests of the first run are looked at closely there; else each step is.
    """
    plan = _with_evidence(light.saved.plan, name)
    if name != CONTENTS:
        return plan
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


class _Runs:
    """Makes the runs of one check-up, and judges them as each other's controls."""

    def __init__(self, bench: Bench, order: Order, progress: Watch | None, held: contextlib.ExitStack) -> None:
        self._bench = bench
        self._order = order
        self._progress = progress
        self._held = held
        self._made: list[tuple[Look, list[str]]] = []

    def make(self, plan: Plan, name: str, steps: int = 0) -> Look:
        """Make one run, and judge it by itself."""
        began = time.monotonic()
        request = Request(plan, progress=self._progress, where=self._order.where)
        folder, void = self._bench.record(request, name, steps)
        self._held.callback(os.close, hold(folder))
        saved = load_run(folder)
        look = Look(name, saved, judge_saved(saved, void), time.monotonic() - began)
        self._made.append((look, void))
        return look

    def judged(self) -> tuple[Look, ...]:
        """Judge each run beside another one, and save it."""
        looks = []
        for look, void in self._made:
            peer = next((other for other, _ in self._made if other is not look), None)
            if peer is not None:
                _lay_beside(look.saved.folder, peer.saved.folder)
                saved = replace(look.saved, control=peer.saved.history)
                look = replace(look, saved=saved, verdict=judge_saved(saved, void))
            look.result.save()
            looks.append(look)
        return tuple(looks)


def _lay_beside(folder: Path, peer: Path) -> None:
    """Lay the records of another run into a run directory, as its control: whoever judges it again finds them there."""
    shutil.copytree(peer, folder / "control", ignore=shutil.ignore_patterns("work", "control", "verdict.json"))


def _parting(looks: Sequence[Look]) -> Difference | None:
    """Return where two of the undisturbed runs part first; None if all of them come to the same."""
    first, *others = (look.saved.history for look in looks)
    return min((d for other in others if (d := first_difference(first, other, results=True))), default=None)


def _samples(looks: Sequence[Look]) -> str:
    """Say why nothing can be said of the samples; empty if each run was trained on the same ones."""
    first, *others = (look.saved.history.without_faults() for look in looks)
    if not others:
        return "it takes two runs to compare samples"
    return next(filter(None, (_samples_of(other, first) for other in others)), "")


def _samples_of(one: History, other: History) -> str:
    try:
        findings = all_oracles()["samples"](one, other, Terms(len(one.last), 0))
    except Abstain as reason:
        return str(reason)
    return f"they differ from run to run: {findings[0].sentence()}" if findings else ""
