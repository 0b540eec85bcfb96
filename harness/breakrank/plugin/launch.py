"""The fixture `launch`: a user's own script, struck and judged in a test of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from breakrank.errors import BreakrankError
from breakrank.files.bounded import plain
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import DEFAULT_ORACLES, Job, Scenario
from breakrank.plan.script import check_script, check_step, framework_of
from breakrank.plugin import options, workers
from breakrank.plugin.launch_reports import note
from breakrank.plugin.pages import Pages, read_pages
from breakrank.report import explain
from breakrank.report.health import Health, health
from breakrank.runs.bench import Bench
from breakrank.runs.checkup import DEADLINE_S, Order, check_up, light_plan
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import SavedRun, load_run
from breakrank.verdict import Blame, Finding, Outcome, Verdict
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.trigger import PlanError


@dataclass(frozen=True, repr=False)
class Launched:
    """The result of a launch. A failed assertion shows what it came to."""

    result: Result
    pages: Pages = field(default_factory=Pages)

    def __repr__(self) -> str:
        return f"<{plain(f'{self.outcome}: {self.verdict.sentence()}')}>"

    @property
    def verdict(self) -> Verdict:
        """The whole verdict."""
        return self.result.verdict

    @property
    def outcome(self) -> Outcome:
        """The outcome."""
        return self.verdict.outcome

    @property
    def survived(self) -> bool:
        """True if no rank reported a failure, and no oracle objects."""
        return self.outcome is Outcome.SURVIVED

    @property
    def detected(self) -> bool:
        """True if a rank or the launcher reported the failure, and no oracle objects."""
        return self.outcome is Outcome.DETECTED and not self.findings

    @property
    def silent(self) -> bool:
        """True if the result is wrong and nobody reported it."""
        return self.outcome is Outcome.SILENT

    @property
    def hung(self) -> bool:
        """True if ranks waited for an event that could never come."""
        return self.outcome is Outcome.HUNG

    @property
    def crashed(self) -> bool:
        """True if a rank died of a signal that nobody sent."""
        return self.outcome is Outcome.CRASHED

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the oracles, the first first."""
        return self.verdict.findings

    @property
    def blame(self) -> Blame:
        """The ranks to blame, and the reason."""
        return self.verdict.blame

    @property
    def folder(self) -> Path:
        """The run directory: `work` in it holds the files that the script wrote."""
        return self.result.folder

    @property
    def saved(self) -> SavedRun:
        """The run, read back: every event of every rank."""
        return load_run(self.folder)

    def explain(self) -> str:
        """Say what happened, as a failed scenario does, with the run's page if pages are asked for."""
        return explain(self.saved, pages=self.pages.write(self.folder))


@dataclass(frozen=True, repr=False)
class Checked:
    """The result of a check-up. A failed assertion shows what is wrong."""

    health: Health

    def __repr__(self) -> str:
        wrong = "; ".join(f"{name}: {words}" for name, words in self.wrong.items())
        return f"<{plain(wrong or ('well' if self.well else 'too little was seen'))}>"

    @property
    def well(self) -> bool:
        """True if nothing is wrong, and enough was seen to say so."""
        return self.health.well

    @property
    def wrong(self) -> dict[str, str]:
        """The sentence about each property that is wrong."""
        return {line.name: line.words for line in self.health.wrong}

    @property
    def sheet(self) -> dict[str, str]:
        """The state of each property: `well`, `wrong` or `not seen`."""
        return {line.name: line.state for line in self.health.lines}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was found, the first first."""
        return self.health.findings

    def explain(self) -> str:
        """Return the whole sheet, with the blame and where the runs are."""
        return self.health.text(f"launch.check({' '.join(self.health.checkup.order.plan.command)!r})")


class Launcher:
    """Launches scripts of one test. Call it: `launch("train.py --epochs 2", ranks=2, faults=[...])`."""

    def __init__(self, open_bench: Callable[[], Bench], folders: Sequence[Path], name: str, item: pytest.Item) -> None:
        self._item = item
        self._open_bench = open_bench
        self._folders = folders
        self._name = name
        self._pages = read_pages(item.config)

    def __call__(
        self,
        command: str | Sequence[str],
        *,
        ranks: int | None = None,
        faults: Sequence[Strike] = (),
        restarts: int | None = None,
        seed: int = 0,
        deadline_s: float = 30.0,
        patience_s: float = 0.0,
        tolerance: float = 0.0,
        oracles: Sequence[str] = DEFAULT_ORACLES,
        steps: int | None = None,
        step: str = "",
        in_place: bool = False,
    ) -> Launched:
        """Run a script as `ranks` ranks (by default two), or a launcher with its own, strike it, and judge it.

        `faults` are strikes, such as `faults.Kill() @ at(rank=1, step=3)`; with some, the script first runs twice
        without them. With `steps` it is ended that many steps after the last strike; `step` is the function
        (`module:function`) whose return ends one. It runs in a private view of its folder, which stays untouched, or,
        `in_place`, in the folder.
        Raises `BreakrankError` for what cannot be run.
        """
        words, folder = self._find(command, step)
        job = Job(steps=0, deadline_s=deadline_s, patience_s=patience_s, data="")
        scenario = Scenario((), job, tuple(faults), oracles=tuple(oracles), name=self._name)
        choices = Choices(seed=seed, ranks=ranks, restarts=restarts, tolerance=tolerance, steps=steps, step=step)
        choices = replace(choices, framework=framework_of(words, folder))
        try:
            (plan,) = make_script_plans(scenario, words, choices).values()
        except PlanError as error:
            raise BreakrankError(str(error)) from None
        result = self._open_bench().run(Request(plan, where=folder, in_place=in_place))
        note(self._item, result, self._pages)
        return Launched(result, self._pages)

    def check(
        self,
        command: str | Sequence[str],
        *,
        ranks: int | None = None,
        steps: int | None = None,
        step: str = "",
        deadline_s: float = DEADLINE_S,
        reference: str = "",
        resume: str | None = None,
        apart: Sequence[str] = (),
    ) -> Checked:
        """Run a script three times undisturbed, each time with other evidence, and say what is wrong with it.

        With `steps` each run ends after that many; `reference` is the command for the same training as one rank, and
        `resume` the one that goes on after the ranks were killed (empty: the same again); `apart` are patterns for the
        names of parameters that ranks mean to have each for itself. The rest is as for a launch.
        Raises `BreakrankError`.
        """
        words, folder = self._find(command, step)
        framework = framework_of(words, folder)
        choices = Choices(ranks=ranks, steps=steps, step=step, framework=framework, apart=tuple(apart))
        try:
            plan = light_plan(words, choices, deadline_s)
        except PlanError as error:
            raise BreakrankError(str(error)) from None
        order = Order(plan, folder, tuple(reference.split()), None if resume is None else tuple(resume.split()))
        return Checked(health(check_up(self._open_bench(), order)))

    def _find(self, command: str | Sequence[str], step: str) -> tuple[list[str], Path]:
        """Return the words of a command, and the folder of its script. Raises `BreakrankError`."""
        words = command.split() if isinstance(command, str) else list(command)
        if not words:
            raise BreakrankError("launch() needs a command, as in launch('train.py --epochs 2')")
        folder = self._folder_of(words)
        check_script(words, folder)
        if step:
            check_step(step, words, folder)
        return words, folder

    def _folder_of(self, words: Sequence[str]) -> Path:
        script = next((word for word in words if word.endswith(".py")), words[0]).removeprefix("./")
        return next((folder for folder in self._folders if (folder / script).is_file()), self._folders[0])


_BENCH: pytest.StashKey[Bench] = pytest.StashKey()


def make_launcher(request: pytest.FixtureRequest) -> Launcher:
    """Return the launcher of one test; its bench is shared by the whole session, and closed with it."""
    config = request.config

    def open_bench() -> Bench:
        if _BENCH not in config.stash:
            controller = workers.received(config)
            pid = controller.pid if controller is not None else None
            bench = config.stash[_BENCH] = Bench(options.runs(config), options.runs_limit(config), pid)
            config.add_cleanup(bench.close)
        return config.stash[_BENCH]

    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in request.node.name)
    return Launcher(open_bench, (config.invocation_params.dir, request.path.parent), name, request.node)
