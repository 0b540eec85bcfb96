"""The test items: one case of a scenario, and one replay of a saved run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from breakrank.errors import BreakrankError
from breakrank.files.bounded import plain
from breakrank.memory.agenda import Agenda
from breakrank.plan.scenario import Case, Scenario
from breakrank.plugin.properties import of_result, tell, text_of
from breakrank.plugin.search import Search, retried
from breakrank.plugin.usage_errors import OUR_ERRORS, one_line
from breakrank.report.compare import finding
from breakrank.report.records import brief, on_record
from breakrank.verdict import Record
from breakrank_agent.plan import Plan

if TYPE_CHECKING:
    from breakrank.plugin.options import Options
    from breakrank.report.health import Health
    from breakrank.runs.result import Result
    from breakrank.runs.saved_run import SavedRun

#: The key under which items find the objects that the whole session shares.


class Active(Protocol):
    """The state of a pytest process that runs scenarios, as far as items need it."""

    options: Options
    agenda: Agenda

    def run(self, title: str, plan: Plan, record: Record | None, scenario: Path) -> Result:
        """Run a plan of the file `scenario` once, when the machine has room for its ranks."""

    def at_seed(self, scenario: Scenario, case: Case, plan: Plan, seed: int) -> Plan:
        """Return a case's plan at another seed."""

    def check(self, title: str, plan: Plan) -> Health:
        """Make the runs of a check-up, each when the machine has room for its ranks, and return the sheet."""

    def replay(self, title: str, folder: Path, plan: Plan) -> tuple[Result, dict[str, Any]]:
        """Run a saved run's plan again; return the result and the saved verdict."""

    def explain(self, folder: Path, advice: str = "") -> str:
        """Explain a saved run, with advice about its record."""

    def is_first(self, scenario: Scenario, case: Case) -> bool:
        """Return whether no run of a case of the user's own is kept."""

    def difference(self, one: Path, other: Path) -> str:
        """Say where two runs diverge first."""


ACTIVE: pytest.StashKey[Active] = pytest.StashKey()


class Failed(Exception):
    """A verdict that fails the test; the message is the whole explanation, `brief` its one line for lists."""

    def __init__(self, text: str, brief: str = "") -> None:
        super().__init__(text)
        self.brief = plain(brief or next(iter(text.splitlines()), ""))


class BreakrankItem(pytest.Item):
    """The base of both kinds of items: reports of ours instead of tracebacks, and data that crosses xdist."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_marker(pytest.mark.scenario)

    def tell(self, **properties: object) -> None:
        """Attach data to the report: it reaches the xdist controller and JUnit. A later value replaces an earlier."""
        tell(self, **properties)

    def tell_result(self, result: Result) -> None:
        """Attach what a run came to."""
        self.tell(**of_result(result))

    @contextmanager
    def at_the_boundary(self) -> Iterator[Active]:
        """Give the session's part, with our errors turned into one line and an interruption cut off from our frames."""
        try:
            yield self.config.stash[ACTIVE]
        except OUR_ERRORS as error:
            self.tell(sentence=one_line(error))
            raise Failed(f"{self.nodeid}: {one_line(error)}", one_line(error)) from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return our explanation; of any other exception the traceback, which is then a defect of ours."""
        if isinstance(excinfo.value, Failed):
            return self._shown(excinfo, excinfo.value)
        return super().repr_failure(excinfo, style)

    def _shown(self, excinfo: pytest.ExceptionInfo[BaseException], failed: Failed) -> Any:
        """Return the explanation in pytest's own form: that has a message for lists, and goes through xdist whole."""
        shown: Any = excinfo.getrepr(style="native")
        for entry in shown.reprtraceback.reprentries:
            entry.lines[:] = [f"{failed}\n"]
        # pytest's summary and JUnit's attribute take it; the whole text would differ from run to run.
        if shown.reprcrash is not None:
            shown.reprcrash = replace(shown.reprcrash, path=str(self.path), lineno=1, message=failed.brief)
        return shown

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the item comes from: the first line of its file, since a skip needs some line."""
        return self.path, 0, self.nodeid


class ScenarioItem(BreakrankItem):
    """One case of a scenario: it passes if its verdict is the one on record."""

    scenario: Scenario
    case: Case
    plan: Plan | None
    record: Record | None

    def prepare(self, scenario: Scenario, case: Case, plan: Plan | None, record: Record | None, skip: str) -> None:
        """Say which case it is, and why it is skipped, if it is."""
        self.scenario, self.case, self.plan, self.record = scenario, case, plan, record
        recorded = record.words() if record is not None else ""
        self.tell(scenario=scenario.name, case=case.name, recorded=recorded, sentence=skip)
        if plan is not None:
            self.tell(seed=plan.seed, runner=plan.runner, mechanism=plan.mechanism)
        if skip:
            self.add_marker(pytest.mark.skip(reason=skip))

    def runtest(self) -> None:
        """Run the case as often as asked for. Raises `Failed` if a verdict is not as recorded, or digests differ."""
        with self.at_the_boundary() as active:
            if self.plan is None:
                raise BreakrankError("there is no plan to run")
            if active.options.seeds:
                self._search(active, self.plan)
                return
            fresh = active.is_first(self.scenario, self.case)
            results: list[Result] = []
            for _ in range(active.options.repeat):
                results.append(active.run(self.nodeid, self.plan, self.record, self.scenario.path))
                self._judge(active, results, fresh)

    def _judge(self, active: Active, results: list[Result], fresh: bool) -> None:
        """Attach the last result, and raise `Failed` if it is not as it should be; `fresh`: there was no run before."""
        first, last = results[0], results[-1]
        self.tell_result(last)
        self.tell(fresh=fresh and self.record is not None)
        if active.options.repeat > 1:
            self.tell(repeats=f"{len(results)}/{active.options.repeat}")
        elif active.options.retries and self._changed(active, last):
            self._try_again(active, last)
        if not last.as_recorded:
            raise Failed(active.explain(last.folder, self._advice(last)), brief(last))
        if active.options.pages.every:
            active.options.pages.write(last.folder)
        if last.verdict.digest != first.verdict.digest:
            what = f"run {len(results)} of {active.options.repeat} differs from run 1"
            self.tell(repeats=f"{len(results) - 1}/{active.options.repeat}", sentence=what)
            difference = active.difference(first.folder, last.folder)
            said = f"{what}: {difference}"
            raise Failed(f"{self.nodeid}: {said}\n  {first.folder}\n  {last.folder}", said)

    def _advice(self, result: Result) -> str:
        """Say where the record is written that did not hold, and what to write there; empty if there is none."""
        if self.record is None:
            return ""
        return on_record(self.scenario, self.case, result.plan, result.verdict)

    def _changed(self, active: Active, result: Result) -> bool:
        stood = str(result.verdict.outcome), finding(result.verdict)
        return active.agenda.changed(self.nodeid, result.plan.mechanism, result.plan.key(), stood, result.as_recorded)

    def _try_again(self, active: Active, first: Result) -> None:
        """Run a case that has changed again, and say whether it has changed or is flaky. Raises `Failed`."""
        runs = [
            active.run(self.nodeid, first.plan, self.record, self.scenario.path) for _ in range(active.options.retries)
        ]
        told = [{name: text_of(value) for name, value in of_result(run).items()} for run in runs]
        words = retried([first, *runs])
        sentence = first.verdict.sentence()
        self.tell(again=json.dumps(told), sentence=f"{words}: {sentence}", verdict_sentence=sentence)
        wrong = [run for run in (first, *runs) if not run.as_recorded]
        if wrong:
            recorded = f"on record {self.record.words()}: " if self.record is not None else ""
            raise Failed(f"{self.nodeid}: {words}\n{active.explain(wrong[0].folder)}", f"{recorded}{words}: {sentence}")

    def _search(self, active: Active, plan: Plan) -> None:
        """Run the case at every seed asked for, and raise `Failed` in the end if the record does not stand."""
        search = Search(len(active.options.seeds))
        for seed in active.options.seeds:
            drawn = active.at_seed(self.scenario, self.case, plan, seed)
            search.add(active.run(self.nodeid, drawn, self.record, self.scenario.path))
            stands = search.stands()
            self.tell_result(search.shown)
            self.tell(repeats=search.count(), sentence=search.words())
            self.tell(as_recorded=stands if self.record is not None else None)
        if not search.stands():
            lines = "\n  ".join([f"{self.nodeid}: {search.words()}", *search.objections()])
            raise Failed(f"{lines}\n{active.explain(search.shown.folder)}", search.words())


class CheckupItem(ScenarioItem):
    """A check-up of a user's script: it passes if nothing is wrong, and is skipped if too little was seen."""

    def runtest(self) -> None:
        """Check the script. Raises `Failed` with the sheet if something is wrong."""
        with self.at_the_boundary() as active:
            if self.plan is None:
                raise BreakrankError("there is no plan to run")
            sheet = active.check(self.nodeid, self.plan)
            look = sheet.shown
            self.tell_result(look.result)
            self.tell(sentence=sheet.headline, seconds=f"{sheet.checkup.seconds:.2f}")
            pages = active.options.pages
            drawn = pages.write(look.result.folder) if sheet.wrong or pages.every else []
            if sheet.wrong:
                repeat = ["pytest", "--scenario=checkup", f"--scenario-train={shlex.join(self.plan.command)}"]
                text = sheet.text(shlex.join(repeat))
                raise Failed("\n".join([self.nodeid, text, *(f"  page: {page}" for page in drawn)]), sheet.headline)
            if sheet.status:
                pytest.skip(sheet.headline)


class ReplayItem(BreakrankItem):
    """A saved run, run again: it passes if outcome and digest are the saved ones."""

    folder: Path
    saved: SavedRun

    def prepare(self, folder: Path, saved: SavedRun) -> None:
        """Say which run it is."""
        self.folder, self.saved = folder, saved
        self.tell(scenario=saved.plan.scenario, case=f"{saved.plan.case} (replay)", seed=saved.plan.seed)
        self.tell(runner=saved.plan.runner, mechanism=saved.plan.mechanism)

    def runtest(self) -> None:
        """Run the saved plan again. Raises `Failed` if the replay diverges."""
        with self.at_the_boundary() as active:
            result, saved = active.replay(self.nodeid, self.folder, self.saved.plan)
            same = (str(result.verdict.outcome), result.verdict.digest) == (saved["outcome"], saved["digest"])
            self.tell_result(result)
            self.tell(recorded=saved["outcome"], as_recorded=same)
            if same:
                return
            self.tell(outcome="VOID")
            what = f"{saved['outcome']} was saved, {result.verdict.outcome} came now: {result.verdict.sentence()}"
            said = f"the replay is not the saved run: {what}"
            files = [self.folder, result.folder, *active.options.pages.write(result.folder)]
            raise Failed("\n".join([f"{self.nodeid}: {said}", *(f"  {file}" for file in files)]), said)
