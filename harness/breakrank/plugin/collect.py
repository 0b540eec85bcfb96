"""Collect the cases that were asked for, as items of pytest's session."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from breakrank import doctor
from breakrank.errors import BreakrankError
from breakrank.files.bounded import plain
from breakrank.plan.build import AUTO, Choices, make_plan
from breakrank.plan.catalogue import load_scenarios, select
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import Case, Scenario
from breakrank.plan.script import title
from breakrank.plugin.command_line import PREFIX
from breakrank.plugin.items import CheckupItem, ReplayItem, ScenarioItem
from breakrank.plugin.options import Options
from breakrank.plugin.slips import check_names
from breakrank.plugin.usage_errors import one_line
from breakrank.report import plan_words, saved_verdict
from breakrank.runners import PLAIN, find_runner
from breakrank.runs.checkup import light_plan
from breakrank.runs.provenance import is_ours, read_meta
from breakrank.runs.saved_run import SavedRun, load_run, programs_of
from breakrank.verdict import SURVIVED, Record
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.trigger import PlanError

#: The first part of a replay's node id.
REPLAY = "replay"


@dataclass(frozen=True)
class Subject:
    """One case that was selected: its plan, or the reason why it is skipped."""

    scenario: Scenario
    case: Case
    plan: Plan | None = None
    skip: str = ""

    @property
    def checks(self) -> bool:
        """True if the subject is the check-up of a user's script."""
        return self.scenario.checkup and self.plan is not None and bool(self.plan.command)

    @property
    def nodeid(self) -> str:
        """The test's id: it does not depend on a folder."""
        return f"{self.scenario.name}::{self.case.name}"

    @property
    def record(self) -> Record | None:
        """The record of the case; a user's script has none."""
        if self.plan is None:
            return self.case.expect
        return None if self.plan.command else self.case.record(self.plan.runner, self.plan.ranks)


@dataclass(frozen=True)
class Replayed:
    """A saved run that is to be run again."""

    folder: Path
    saved: SavedRun

    @property
    def nodeid(self) -> str:
        """The test's id."""
        return f"{REPLAY}::{self.saved.plan.scenario}-{self.saved.plan.case}"


def choose(options: Options) -> list[Subject]:
    """Return the subjects that the options select, in order.

    Raises `BreakrankError` if there are none, or if none of them can run here for the same kind of reason.
    """
    chosen = select(load_scenarios(options.paths), options.names)
    if options.framework and not options.train:
        reasons = dict.fromkeys(s.without.get(options.framework, "") for s, _ in chosen)
        chosen = [(s, case) for s, case in chosen if case.framework == options.framework]
        if not chosen:
            why = "; ".join(filter(None, reasons))
            lack = f"no case of {', '.join(options.names)} is for {options.framework}"
            raise BreakrankError(f"{lack}: {why}" if why else lack)
    check_names(chosen, programs=not options.train)
    frameworks = {options.framework} if options.train else {case.framework for _, case in chosen}
    lacks = {_lacking(framework, options) for framework in frameworks}
    if "" not in lacks:
        raise BreakrankError("; ".join(sorted(lacks)))
    if options.runner != AUTO and not options.dry_run:
        lack = doctor.missing(find_runner(options.runner).needs, options.runner, options.image)
        if lack:
            raise BreakrankError(f"{PREFIX}-runner={options.runner} {lack}")
    if options.train:
        subjects = [s for scenario in {s.name: s for s, _ in chosen}.values() for s in _scripts(scenario, options)]
    else:
        subjects = [_subject(scenario, case, options) for scenario, case in chosen]
    refused = [s.skip for s in subjects if s.skip.startswith(_NO_PLAN)]
    if len(refused) == len(subjects):
        raise BreakrankError(refused[0].removeprefix(_NO_PLAN))
    return subjects


def _lacking(framework: str, options: Options) -> str:
    """Return why a framework's cases cannot run where the ranks will be, or the empty string.

    Raises `BreakrankError` if there is no engine, or no such image.
    """
    # Without an image the ranks are on this machine, whether or not anything is around them.
    runner = PLAIN if options.runner == AUTO else options.runner
    return doctor.missing_framework(framework, runner, options.image)


_NO_PLAN = "no such plan: "


def choices(options: Options) -> Choices:
    """Return what the options decide of a run."""
    return Choices(
        options.seed,
        options.ranks,
        options.deadline_s,
        options.restarts,
        options.patience_s,
        options.tolerance,
        options.runner,
        options.reference,
        options.steps,
        options.step,
        options.image,
        options.framework,
        options.apart,
    )


def _scripts(scenario: Scenario, options: Options) -> list[Subject]:
    """Return the subjects that a user's script makes with a scenario: one for each way in which it strikes."""
    unknown = Case(title(options.train), "", SURVIVED)
    try:
        if scenario.checkup:
            plan = light_plan(options.train, _choices_of_checkup(options))
            return [Subject(scenario, unknown, plan, doctor.missing_for(plan))]
        plans = make_script_plans(scenario, options.train, choices(options))
    except (BreakrankError, PlanError) as error:
        return [Subject(scenario, unknown, skip=f"{_NO_PLAN}{scenario.name}: {one_line(error)}")]
    return [
        Subject(scenario, replace(unknown, name=name), plan, doctor.missing_for(plan)) for name, plan in plans.items()
    ]


def _choices_of_checkup(options: Options) -> Choices:
    """Return what the options decide of a check-up. Raises `BreakrankError` for those that have no part in one."""
    idle = {
        "-restarts": options.restarts is not None,
        "-patience": options.patience_s is not None,
        "-tolerance": options.tolerance is not None,
        "-repeat": options.repeat > 1,
        "-seeds": bool(options.seeds),
        "-in-place": options.in_place,
        "-image": bool(options.image),
        "-runner": options.runner not in (AUTO, PLAIN),
    }
    for suffix, given in idle.items():
        if given:
            raise BreakrankError(f"a check-up runs plain processes undisturbed; leave out {PREFIX}{suffix}")
    return choices(options)


def _subject(scenario: Scenario, case: Case, options: Options) -> Subject:
    """Return one subject with its plan, or with the reason why there is none."""
    lack = _lacking(case.framework, options)
    if lack:
        return Subject(scenario, case, skip=lack)
    try:
        plan = make_plan(scenario, case, choices(options))
    except (BreakrankError, PlanError) as error:
        return Subject(scenario, case, skip=f"{_NO_PLAN}{scenario.name}::{case.name}: {one_line(error)}")
    return Subject(scenario, case, plan, doctor.missing_for(plan, case.needs))


def load_replay(options: Options, folder: Path) -> Replayed:
    """Return the saved run in `folder`. Raises `BreakrankError` if it cannot be replayed, or is not to be trusted.

    A replay runs the code that the directory names: one that was not made by this user here is replayed when told so.
    """
    saved = load_run(folder)
    saved_verdict(saved)
    if not (options.trust or options.dry_run or is_ours(folder)):
        raise BreakrankError(
            f"{folder} was not made by you on this machine, and a replay runs the code that it names: see with "
            f"{PREFIX}-dry-run what it would run, then add {PREFIX}-trust"
        )
    if not options.dry_run:
        _check_framework(saved.plan)
    return Replayed(folder, saved)


def _check_framework(plan: Plan) -> None:
    """Raise `BreakrankError` if the ranks of a plan would not find their framework."""
    lack = doctor.missing_framework(plan.framework, plan.runner, plan.image)
    if lack:
        raise BreakrankError(lack)


def replay_words(folder: Path, saved: SavedRun) -> str:
    """Say what a replay would run: the plan in words, the command or program, and where its code comes from."""
    plan = saved.plan
    named = read_meta(folder).get("programs")
    there = programs_of(folder)
    lacks = "" if there is not None else ", which is not there: the programs that come with Breakrank would run"
    if plan.command:
        lacks = "" if there is not None else ", which is not there"
    what = shlex.join(plan.command) if plan.command else plan.program
    lines = [
        *plan_words(plan).splitlines(),
        f"  A replay of {folder} would run {what}",
        f"  with the code in {named if isinstance(named, str) else 'no folder that it names'}{lacks}.",
    ]
    if plan.reference:
        lines.append(f"  For comparison it would run {shlex.join(plan.reference)}.")
    if find_runner(plan.runner).has_image:
        lines.append(f"  Its containers would be of the image {plan.image}.")
    made = "was made by you on this machine" if is_ours(folder) else f"was made elsewhere: it needs {PREFIX}-trust"
    return "\n".join(plain(line) for line in [*lines, f"  The directory {made}."])


class ScenarioCollector(pytest.Collector):
    """A scenario in pytest's tree; its id is its name."""

    subjects: list[Subject]

    def collect(self) -> Iterable[pytest.Item]:
        """Return the selected cases."""
        for subject in self.subjects:
            kind = CheckupItem if subject.checks else ScenarioItem
            item = kind.from_parent(self, name=subject.case.name)
            item.prepare(subject.scenario, subject.case, subject.plan, subject.record, subject.skip)
            yield item


class ReplayCollector(pytest.Collector):
    """The parent of a replay."""

    replayed: Replayed

    def collect(self) -> Iterable[pytest.Item]:
        """Return the one replay."""
        item = ReplayItem.from_parent(self, name=self.replayed.nodeid.split("::", 1)[1])
        item.prepare(self.replayed.folder, self.replayed.saved)
        yield item


class Collection:
    """Puts the subjects into the session, after what else it collects."""

    def __init__(self, subjects: list[Subject], replayed: Replayed | None) -> None:
        self._subjects = subjects
        self._replayed = replayed

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add our collectors to what the session collects."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed:
            report.result = [*report.result, *self._collectors(collector)]
        return report

    def _collectors(self, session: pytest.Session) -> list[pytest.Collector]:
        if self._replayed is not None:
            replay = ReplayCollector.from_parent(session, name=REPLAY, nodeid=REPLAY, path=self._replayed.folder)
            replay.replayed = self._replayed
            return [replay]
        collectors: dict[str, pytest.Collector] = {}
        for subject in self._subjects:
            name = subject.scenario.name
            if name not in collectors:
                made = ScenarioCollector.from_parent(session, name=name, nodeid=name, path=subject.scenario.path)
                made.subjects = [s for s in self._subjects if s.scenario.name == name]
                collectors[name] = made
        return list(collectors.values())


class NothingElse:
    """Stands in for the session's own collection where only scenarios are wanted: no file of the user is read."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> pytest.CollectReport | None:
        """Return an empty report for the session."""
        if isinstance(collector, pytest.Session):
            return pytest.CollectReport(collector.nodeid, "passed", None, [])
        return None
