"""The state of a pytest process that runs scenarios: the choice, the bench, the header and the summary."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakrank.errors import BreakrankError
from breakrank.files.private import make_runs
from breakrank.host import core_tokens
from breakrank.host.user_limits import check_quotas
from breakrank.memory.agenda import Agenda, agenda
from breakrank.plan.build import make_plan
from breakrank.plan.catalogue import packaged_folder, programs_beside
from breakrank.plan.scenario import Case, Scenario
from breakrank.plugin import header, workers
from breakrank.plugin import options as options_module
from breakrank.plugin.collect import (
    Collection,
    NothingElse,
    Replayed,
    Subject,
    choices,
    choose,
    load_replay,
    replay_words,
)
from breakrank.plugin.command_line import PREFIX
from breakrank.plugin.interrupts import Interrupts
from breakrank.plugin.items import ACTIVE, ReplayItem, ScenarioItem
from breakrank.plugin.options import Options
from breakrank.plugin.progress import Live, Workers
from breakrank.plugin.remember import Remember
from breakrank.plugin.schedule import Schedule
from breakrank.plugin.selection import Selection
from breakrank.plugin.summary import write_table
from breakrank.plugin.usage_errors import one_line
from breakrank.report import compare, explain, plan_words
from breakrank.report.health import Health, health
from breakrank.report.terminal import Row
from breakrank.runs.bench import Bench
from breakrank.runs.checkup import Order, check_up
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Record
from breakrank_agent.plan import Plan

#: Less room than this on the disk of the run directories, and a run would not get far.
_ROOM_BYTES = 64 * 2**20


def activate(config: pytest.Config) -> None:
    """Choose what runs and register the hooks for it. Raises `BreakrankError` for what cannot be."""
    options = options_module.read(config)
    _check_plugins(config)
    sent = workers.received(config)
    if sent is not None:
        options = replace(options, seed=sent.seed)
    replayed = load_replay(options, options.replay) if options.replay is not None else None
    subjects = choose(options) if replayed is None else []
    if sent is None and not options.dry_run and not config.option.collectonly:
        _check_runs(options.runs)
        check_quotas(max((s.plan.ranks or 0 for s in subjects if s.plan is not None), default=0))
    exclusive = sent.exclusive if sent is not None else _no_path_given(config)
    if options.dry_run:
        config.option.dist = "no"  # nothing runs, so nothing is distributed
    active = Active(config, options, subjects, replayed)
    config.stash[ACTIVE] = active
    schedule = Schedule(_agenda(options, replayed) if sent is None else Agenda.loads(sent.agenda), options, sent)
    active.agenda = schedule.agenda
    config.pluginmanager.register(active, "breakrank-active")
    config.pluginmanager.register(active.selection, "breakrank-selection")
    config.pluginmanager.register(Interrupts(speaks=sent is None), "breakrank-interrupts")
    config.pluginmanager.register(Collection(subjects, replayed), "breakrank-collection")
    if exclusive:
        config.pluginmanager.register(NothingElse(), "breakrank-nothing-else")
    if sent is None:
        _check_left(options, subjects, schedule.agenda)
        agenda = schedule.agenda.dumps()
        sender = workers.Sender(config, options.seed, exclusive, agenda, schedule.until)
        config.pluginmanager.register(sender, "breakrank-sender")
        if config.getoption("numprocesses", None):
            config.pluginmanager.register(
                Workers(config, active.selection, active.pytest_report_collectionfinish), "breakrank-workers"
            )
        if replayed is None and not options.dry_run and not config.option.collectonly:
            remember = Remember(config, options, subjects, schedule.agenda)
            config.pluginmanager.register(remember, "breakrank-remember")
    config.pluginmanager.register(schedule, "breakrank-schedule")


def _agenda(options: Options, replayed: Replayed | None) -> Agenda:
    """Return what is known before the session, if anything asks for it. Raises `BreakrankError`."""
    asked = options.retries or options.budget_s is not None or options.resume is not None
    return agenda(options.runs, options.resume, options.image) if asked and replayed is None else Agenda()


def _check_left(options: Options, subjects: Sequence[Subject], known: Agenda) -> None:
    """Raise `BreakrankError` if the last session is to be gone on with, and has a result of each case."""
    if options.resume == 0 and all(subject.nodeid in known.done for subject in subjects):
        raise BreakrankError(f"the last session left nothing; leave out {PREFIX}-resume")


def _no_path_given(config: pytest.Config) -> bool:
    """Return whether the command line names no path: then only scenarios are collected."""
    return config.args_source != pytest.Config.ArgsSource.ARGS


def _check_plugins(config: pytest.Config) -> None:
    """Raise `BreakrankError` for what another plugin cannot do with us, or cannot do here."""
    if config.getoption("forked", False):
        raise BreakrankError(
            "--forked would end the supervisor and the warm processes with each case; leave it out: ranks are "
            "processes of their own anyway"
        )
    where = str(config.rootpath)
    if config.getoption("numprocesses", None) and where != where.encode(errors="replace").decode():
        raise BreakrankError(f"xdist cannot tell its workers of {where!r}, whose name is no UTF-8; leave out -n")


def _check_runs(runs: Path) -> None:
    """Raise `BreakrankError` if no run directory can be made: no right, or no room."""
    probe = runs / f".probe-{os.getpid()}"
    try:
        make_runs(runs)
        probe.write_bytes(b"probe")
        probe.unlink()
        free = shutil.disk_usage(runs).free
    except OSError as error:
        with contextlib.suppress(OSError):
            probe.unlink()
        cure = "set the ini option scenario_runs to a folder of yours"
        raise BreakrankError(f"cannot write run directories to {runs}: {error.strerror}; {cure}") from None
    if free < _ROOM_BYTES:
        raise BreakrankError(
            f"only {free >> 20} MB are free at {runs}, a run needs {_ROOM_BYTES >> 20}; "
            "make room, or set the ini option scenario_runs to another disk"
        )


class Active:
    """The session's part: owns the bench, and knows how to run, explain and sum up."""

    def __init__(
        self, config: pytest.Config, options: Options, subjects: list[Subject], replayed: Replayed | None
    ) -> None:
        self.options = options
        #: Loaded first: that there is nothing to compare with is said before anything runs.
        self._old = compare.load_standing(options.runs, options.compare) if options.compare else None
        self._compared: list[str] = []
        self._config = config
        self._subjects = subjects
        self._ids = {s.nodeid for s in subjects} | ({replayed.nodeid} if replayed is not None else set())
        self._bench: Bench | None = None
        #: The knowledge about the cases before this session.
        self.agenda = Agenda()
        self.selection = Selection(config, self._ids)

    def run(self, title: str, plan: Plan, record: Record | None, scenario: Path) -> Result:
        """Run a plan of the file `scenario` once, when the machine has room for its ranks."""
        with core_tokens.hold(self.options.runs / "slots", plan.ranks or 1), self._live(title) as live:
            bench, options = self._open_bench(), self.options
            if plan.command:
                where, in_place = options.folder, options.in_place
                return bench.run(Request(plan, record, progress=live, where=where, in_place=in_place))
            # Scenarios of a user's own have their programs beside them.
            return bench.run(Request(plan, record, programs_beside(scenario), live))

    def check(self, title: str, plan: Plan) -> Health:
        """Make the runs of a check-up, when the machine has room for its ranks, and return the sheet."""
        with core_tokens.hold(self.options.runs / "slots", plan.ranks or 1), self._live(title) as live:
            order = Order(plan, self.options.folder, self.options.reference)
            return health(check_up(self._open_bench(), order, live.tell, live))

    def _live(self, title: str) -> Live:
        """Return the line that shows where the ranks of a case are."""
        return Live(self._config, title, self.selection.begin(title))

    def at_seed(self, scenario: Scenario, case: Case, plan: Plan, seed: int) -> Plan:
        """Return a case's plan at another seed."""
        if plan.command:
            return replace(plan, seed=seed)
        return make_plan(scenario, case, replace(choices(self.options), seed=seed))

    def replay(self, title: str, folder: Path, plan: Plan) -> tuple[Result, dict[str, Any]]:
        """Run a saved run's plan again; return the result and the saved verdict."""
        with core_tokens.hold(self.options.runs / "slots", plan.ranks or 1), self._live(title) as live:
            return self._open_bench().replay(folder, progress=live)

    def _open_bench(self) -> Bench:
        """Return the bench of this process, which is opened for the first run."""
        if self._bench is None:
            controller = workers.received(self._config)
            pid = controller.pid if controller is not None else None
            asked = self.options
            self._bench = Bench(asked.runs, asked.runs_limit_mb, pid, cold=asked.cold, hosts=asked.hosts)
        return self._bench

    def explain(self, folder: Path, advice: str = "") -> str:
        """Explain a saved run, with its page if one is to be drawn, and advice about its record."""
        pages = self.options.pages.write(folder)
        return explain(load_run(folder), workers.width(self._config), advice, pages)

    def is_first(self, scenario: Scenario, case: Case) -> bool:
        """Return whether no run of a case of the user's own is kept."""
        own = scenario.path.parent != packaged_folder()
        kept = re.compile(rf"{re.escape(f'{scenario.name}-{case.name}')}(-s\d+)?-\d+")
        return own and not any(kept.fullmatch(name) for name in os.listdir(self.options.runs))

    def difference(self, one: Path, other: Path) -> str:
        """Say where two runs part first."""
        from breakrank.judge.run_digest import explain_difference

        return explain_difference(load_run(one).history, load_run(other).history) or "their histories are equal"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Close the bench, and with it every process of ours. A case that got worse fails the session."""
        bench, self._bench = self._bench, None
        if bench is not None:
            bench.close()
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        rows = self._rows(reporter) if reporter is not None and workers.received(self._config) is None else []
        if not self.options.image or not rows:
            return
        standing = self._standing(rows)
        if self._old is not None:
            old = replace(self._old, cases={k: v for k, v in self._old.cases.items() if k in standing.cases})
            comparison = compare.Comparison(old, standing)
            self._compared = list(comparison.lines())
            if comparison.status and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _standing(self, rows: list[Row]) -> compare.Standing:
        """Return what the cases came to on the image, and save it for whoever compares with it."""
        standing = compare.new_standing(self.options.image)
        for row in rows:
            name = compare.key(row.scenario, row.case, row.mechanism)
            standing.cases[name] = compare.Stood(row.outcome, row.finding, row.sentence)
        standing.save(self.options.runs)
        return standing

    def pytest_report_header(self) -> list[str]:
        """Say how often a script runs; with -v, the settings of all that was asked for."""
        if not self._subjects:
            return []
        lines = list(header.about_script(self._subjects, self.options)) if self.options.train else []
        if self._config.option.verbose > 0:
            lines += header.settings(self._subjects, self.options)
        return lines

    def pytest_report_collectionfinish(self) -> list[str]:
        """Say how many cases are left to run."""
        if not self._subjects or self._config.option.verbose < 0:
            return []
        return [header.counts(self._subjects, self.selection.selected, self.options)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Under `--scenario-dry-run`, say the plans in words and run nothing."""
        if not self.options.dry_run or session.testsfailed:
            return None
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and not self._config.option.collectonly:
            for item in session.items:
                if isinstance(item, ScenarioItem):
                    reporter.write_line(_dry_words(item))
                elif isinstance(item, ReplayItem):
                    reporter.write_line(replay_words(item.folder, item.saved))
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the table of verdicts and the headline, and what was not run."""
        rows = self._rows(terminalreporter)
        if rows:
            terminalreporter.ensure_newline()
            terminalreporter.section("breakrank")
            write_table(terminalreporter, rows)
        meant_to_run = not (self.options.dry_run or self._config.option.collectonly)
        for line in [*self._compared, *filter(None, [self.selection.words()] * meant_to_run)]:
            terminalreporter.write_line(line)

    def _rows(self, reporter: pytest.TerminalReporter) -> list[Row]:
        """Return one row for each case that was run or skipped; xdist may run one again whose worker died."""
        rows: dict[str, Row] = {}
        for category in ("passed", "failed", "skipped", "error"):
            for report in reporter.stats.get(category, []):
                ours = isinstance(report, pytest.TestReport) and report.nodeid in self._ids
                if ours and (report.when == "call" or not report.passed):
                    properties = {str(k): str(v) for k, v in report.user_properties} or self._lost(report)
                    rows[report.nodeid] = Row.from_properties(properties, report.passed)
        return list(rows.values())

    def _lost(self, report: pytest.TestReport) -> dict[str, str]:
        """Return what is known of a case whose process died before it could tell anything: an xdist worker, say."""
        scenario, _, case = report.nodeid.partition("::")
        plans = [s.plan for s in self._subjects if s.nodeid == report.nodeid and s.plan is not None]
        runner = plans[0].runner if plans else ""
        mechanism = plans[0].mechanism if plans else ""
        sentence = one_line(report.longreprtext.strip() or "its process died")
        return {"scenario": scenario, "case": case, "runner": runner, "mechanism": mechanism, "sentence": sentence}

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Say in one line that the xdist worker died that ran a case of ours."""
        if crashitem in self._ids:
            worker = getattr(getattr(report, "node", None), "gateway", None)
            name = f" {worker.id}" if worker is not None else ""
            report.longrepr = f"{crashitem} is lost: the xdist worker{name} died while it ran; was it killed?"


def _dry_words(item: ScenarioItem) -> str:
    """Return the plan of an item in words, or why there is none."""
    skips = [str(mark.kwargs.get("reason")) for mark in item.iter_markers("skip")]
    words = plan_words(item.plan) if item.plan is not None else item.nodeid
    return "\n".join([words, *(f"  Skipped here: {reason}." for reason in skips)])
