"""One run, from plan to verdict: the run directory, the data, the control, the ranks, the judgement."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import random
import shutil
import sys
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakrank.conductor.conductor import Conductor, Progress
from breakrank.errors import BreakrankError, CutShortError, NoSpaceError
from breakrank.files.disk_space import FULL, Room, keep_room, removed_if_cut_short, unwritable, write_verdict
from breakrank.files.private import make_part, make_private, make_runs, seal
from breakrank.history.reader import History, picks, read_history
from breakrank.host.agent_link import is_passable, make_detour, remove_detours
from breakrank.host.session import Session, sweep
from breakrank.host.user_limits import check_quotas
from breakrank.judge.judge import say_damage, why_no_rank
from breakrank.judge.run_digest import explain_difference
from breakrank.plan.scenario import DEFAULT_ORACLES, Case, Scenario
from breakrank.plan.script import is_script, title
from breakrank.runners import cgroups, docker_runner
from breakrank.runners.base import Runner
from breakrank.runners.join import JoinRunner
from breakrank.runners.process import ProcessRunner, free_space, stage_agent
from breakrank.runners.sandbox import SandboxRunner
from breakrank.runners.workdir import View, close_view, copy_folder, make_view
from breakrank.runners.zygotes import Zygotes
from breakrank.runs.provenance import MARK, mark, read_meta
from breakrank.runs.retention import hold, make_room
from breakrank.runs.saved_run import judge_saved, load_run, programs_of
from breakrank.verdict import SURVIVED, Outcome, Record, Verdict
from breakrank_agent.plan import Plan, Schedule
from breakrank_agent.protocol.events import HungEvent, ReportEvent
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.log import DEFAULT_SIZE
from breakrank_agent.protocol.trigger import PlanError
from breakrank_agent.schedules import Diverged

if TYPE_CHECKING:
    from breakrank.runners.docker import Clusters

#: The most ranks that one machine is asked to run.
MOST_RANKS = 64

#: How much of each rank's history is kept of a job that is watched, for days maybe.
WATCHED_BYTES = 16 << 20

#: Runners that start the ranks themselves. What `auto` is depends on what strikes.
RUNNERS = {"process": ProcessRunner, "sandbox": SandboxRunner}

Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Choices:
    """What the person who starts a run decides; None leaves it to the scenario.

    `steps` (after the last strike), `step` (what ends one) and `framework` are for scripts.
    """

    seed: int = 0
    ranks: int | None = None
    deadline_s: float | None = None
    restarts: int | None = None
    patience_s: float | None = None
    tolerance: float | None = None
    runner: str = "auto"
    reference: tuple[str, ...] = ()
    steps: int | None = None
    step: str = ""
    image: str = ""
    framework: str = ""


def make_plan(scenario: Scenario, case: Case, choices: Choices) -> Plan:
    """Resolve all chance of a case with the seed. Raises `BreakrankError` for what cannot be run."""
    job = scenario.job
    ranks = job.ranks if case.ranks is None else case.ranks
    ranks = ranks if choices.ranks is None else choices.ranks
    if not 1 <= ranks <= MOST_RANKS:
        raise BreakrankError(f"{ranks} ranks cannot be run here; choose 1 to {MOST_RANKS}")
    declared = scenario.strikes if case.strikes is None else case.strikes
    try:
        strikes = tuple(_resolve(s, i, ranks, choices.seed, scenario.name) for i, s in enumerate(declared))
    except PlanError as error:
        raise BreakrankError(f"{scenario.name}, case {case.name}: {error}") from None
    restarts = job.restarts if case.restarts is None else case.restarts
    patience_s = job.patience_s if case.patience_s is None else case.patience_s
    return Plan(
        scenario=scenario.name,
        case=case.name,
        program=case.program,
        seed=choices.seed,
        framework=case.framework,
        ranks=ranks,
        steps=job.steps,
        restarts=restarts if choices.restarts is None else choices.restarts,
        elastic=job.elastic,
        deadline_s=job.deadline_s if choices.deadline_s is None else choices.deadline_s,
        patience_s=patience_s if choices.patience_s is None else choices.patience_s,
        payloads=job.payloads,
        tolerance=case.tolerance if choices.tolerance is None else choices.tolerance,
        runner=_runner(choices.runner, strikes, f"{scenario.name}, case {case.name}"),
        image=choices.image,
        control=case.control or ("same" if strikes else ""),
        data=job.data,
        oracles=scenario.oracles_of(case),
        schedule=scenario.schedule,
        strikes=strikes,
        environment=dict(case.environment),
    )


def _runner(wanted: str, strikes: Sequence[Strike], name: str) -> str:
    """Return the runner of a plan: walls only where a strike needs them. Raises `BreakrankError` where none are wanted.

    What is struck through walls cannot be struck without, so that `auto` changes no record.
    """
    walled = [strike.fault.name() for strike in strikes if strike.fault.walled]
    contained = [strike.fault.name() for strike in strikes if strike.fault.contained]
    if contained and wanted != "docker":
        raise BreakrankError(f"{name}: {contained[0]} needs ranks in containers; use --scenario-image=REF")
    if wanted == "auto":
        return "sandbox" if walled else "process"
    if wanted == "process" and walled:
        raise BreakrankError(f"{name}: {walled[0]} needs walls around the ranks; use --scenario-runner=sandbox")
    return wanted


def make_script_plans(scenario: Scenario, command: Sequence[str], choices: Choices) -> dict[str, Plan]:
    """Return the plans of a user's script under a scenario, by name: one for each way in which the scenario strikes.

    Nothing is pinned, and the control is the script itself without the strikes. Raises `BreakrankError`.
    """
    script, launched = title(command), not is_script(command)
    if launched:
        _check_launched(command, choices)
        # How many ranks there are is known when the launcher has started them.
        choices = replace(choices, ranks=MOST_RANKS, restarts=0)
    ways: dict[str, tuple[Strike, ...]] = {}
    own = [scenario.strikes, *(case.strikes for case in scenario.cases if case.strikes is not None)]
    for strikes in [(strike,) for strike in scenario.on_scripts] or own:
        # What strikes the data of our programs cannot strike a script.
        if strikes and all(strike.fault.strikes_scripts for strike in strikes):
            ways.setdefault(str(strikes), tuple(strikes))
    if not ways and (scenario.strikes or any(case.strikes for case in scenario.cases)):
        raise BreakrankError("it strikes only the programs that come with it, not a script")
    if not ways and _lies_in_programs(scenario):
        raise BreakrankError(
            "it strikes nothing: its fault lies in the programs that come with it, and a script would only run "
            "undisturbed; use --scenario=baseline for that"
        )
    plans: dict[str, Plan] = {}
    for strikes in ways.values() or [()]:
        framework = choices.framework or "torch"
        case = Case(script, "", SURVIVED, framework=framework, strikes=strikes, restarts=scenario.job.restarts)
        made = make_plan(replace(scenario, job=replace(scenario.job, steps=0, data="")), case, choices)
        name = script if len(ways) < 2 else _name_way(script, strikes, plans)
        made = replace(made, case=name, command=tuple(command), pin=False, step=choices.step)
        if choices.reference:
            made = replace(made, reference=choices.reference, oracles=(*made.oracles, "reference"))
        if choices.steps is not None:
            last = max((strike.trigger.step for strike in strikes), default=0)
            made = replace(made, until=last + choices.steps)
        if launched and made.runner != "process":
            raise BreakrankError(
                f"{scenario.name} strikes ranks behind walls, and '{' '.join(command)}' starts its ranks itself; name "
                "the script without its launcher"
            )
        if launched:
            made = replace(made, schedule=Schedule())
        elif made.schedule.mode == "controlled":
            made = replace(made, control="same")
        unresolved = tuple(replace(strike, ranks=()) for strike in made.strikes)
        plans[name] = replace(made, runner="join", ranks=0, strikes=unresolved) if launched else made
    return plans


def _lies_in_programs(scenario: Scenario) -> bool:
    """Whether all that a scenario has is programs with a fault: no order of its own, and no oracle beyond the usual."""
    usual = {*DEFAULT_ORACLES, "placement"}
    in_programs = any(case.control for case in scenario.cases)
    return in_programs and scenario.schedule.mode == "free" and usual.issuperset(scenario.oracles)


def _name_way(script: str, strikes: Sequence[Strike], taken: Container[str]) -> str:
    """Return a name for a script under these strikes, such as `train.py-kill-collective`, that is not taken."""
    name = "-".join([script, *(f"{strike.fault.name()}-{strike.trigger.point}" for strike in strikes)])
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(candidate for candidate in names if candidate not in taken)


def _check_launched(command: Sequence[str], choices: Choices) -> None:
    """Raise `BreakrankError` for what only the user's launcher can decide."""
    for value, name in ((choices.ranks, "ranks"), (choices.restarts, "restarts")):
        if value is not None:
            raise BreakrankError(f"'{' '.join(command)}' starts its ranks itself: say there, not here, how many {name}")
    if choices.runner not in ("auto", "process"):
        raise BreakrankError(f"'{' '.join(command)}' starts its ranks itself: no walls can be put up around them")


def resolve_launched(plan: Plan, control: History) -> Plan:
    """Return the plan of a launcher's job, of as many ranks as the control had. Raises `BreakrankError`."""
    ranks = control.world(control.attempts[-1])
    try:
        strikes = tuple(_resolve(s, i, ranks, plan.seed, plan.scenario) for i, s in enumerate(plan.strikes))
    except PlanError as error:
        raise BreakrankError(f"{' '.join(plan.command)}: {error}") from None
    return replace(plan, ranks=ranks, strikes=strikes)


def _resolve(strike: Strike, index: int, ranks: int, seed: int, scenario: str) -> Strike:
    draw = random.Random(f"{seed}:{scenario}:{index}").randrange(ranks)
    return replace(strike, ranks=strike.trigger.select(ranks, draw))


def reference_plan(plan: Plan) -> Plan:
    """Return the plan of the reference: one rank that does the work of all, on the same global batches."""
    wanted = replace(control_plan(replace(plan, control="same")), ranks=1)
    if plan.command:
        return replace(wanted, command=plan.reference, runner="process")
    return replace(wanted, merged=plan.ranks)


def control_plan(plan: Plan) -> Plan:
    """Return the plan of the control: without the strikes, or the sound twin that the case names."""
    program = plan.program if plan.control == "same" else plan.control
    if plan.command and plan.schedule.mode == "controlled":
        # What a script makes of other schedules is compared with what it makes of one after the other.
        plan = replace(plan, schedule=Schedule("controlled", "serial"))
    return replace(plan, scenario="control", case="control", program=program, strikes=(), control="", restarts=0)


@dataclass(frozen=True)
class Result:
    """One run and its verdict; `record` is what is known of the case, if anything is."""

    plan: Plan
    verdict: Verdict
    folder: Path
    seconds: float
    record: Record | None = None

    @property
    def as_recorded(self) -> bool:
        """Whether the verdict is the record's; without a record, whether nothing is to be objected to."""
        if self.record is not None:
            return self.record.matches(self.verdict.outcome, self.verdict.findings)
        # Where nothing is struck there is nothing to detect.
        good = (Outcome.SURVIVED, Outcome.DETECTED) if self.plan.strikes else (Outcome.SURVIVED,)
        return self.verdict.outcome in good and not self.verdict.findings


class Bench:
    """Where runs are made: one per pytest process. It owns the warden and the folder of the runs.

    `limit_mb` bounds the folder: the oldest finished runs make room. `controller_pid` is another process whose death
    ends everything here, too (the xdist controller). Ranks are forked from a warm process unless `cold`;
    `agent_source` is another agent than the installed one, `session` another session than one with a warden of its own.
    Raises `BreakrankError` if the folder cannot be used.
    """

    def __init__(
        self,
        runs: Path,
        limit_mb: int = 500,
        controller_pid: int | None = None,
        cold: bool = False,
        agent_source: Path | None = None,
        session: Session | None = None,
    ) -> None:
        self.runs = runs.absolute()
        try:
            make_runs(self.runs)
            self._staged = stage_agent(self.runs, agent_source)
        except OSError as error:
            # Of a whole folder that could not be copied, the last of its files says why.
            why = error.strerror or error.args[0][-1][-1]
            raise BreakrankError(
                f"cannot use {self.runs} for the runs: {why}; choose another folder with the ini option scenario_runs"
            ) from None
        make_room(self.runs, limit_mb)
        sweep()
        cgroups.sweep()
        remove_detours()
        self._session = session or Session(controller_pid)
        #: The folder that ranks on this machine import the agent from.
        self._importable = self._find_way()
        self._zygotes = None if cold else Zygotes(self._session, self.runs)
        self._clusters: Clusters | None = None
        self._controls: dict[tuple[str, Path | None], Path] = {}
        self._cold = cold
        self._held: int | None = None

    @property
    def warden_pid(self) -> int:
        """The process below which everything of this bench runs."""
        return self._session.warden_pid

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End whatever still runs, and the warden: each of them, whatever the others raise."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._session.close)
            if self._held is not None:
                ends.callback(os.close, self._held)
                self._held = None
            if self._importable != self._staged:
                ends.callback(remove_detours, self._session.id)
            if self._clusters is not None:
                ends.callback(self._clusters.close)
            if self._zygotes is not None:
                ends.callback(self._zygotes.close)

    def _find_way(self) -> Path:
        """Return the agent's copy as a search path can hold it; what is made for that is gone when we are."""
        if is_passable(self._staged):
            return self._staged
        try:
            # Told first: it is removed even if we are killed in between.
            self._session.last([sys.executable, "-I", "-m", "breakrank", "sweep", "--session", self._session.id])
            return make_detour(self._staged, self._session.id)
        except BreakrankError:
            self._session.close()
            raise

    def run(
        self,
        plan: Plan,
        record: Record | None = None,
        programs: Path | None = None,
        progress: Watch | None = None,
        agent: bool = True,
        replayed: Plan | None = None,
        where: Path | None = None,
        in_place: bool = False,
    ) -> Result:
        """Run a plan and judge it. `programs` is the folder of its programs, by default the packaged one.

        `where` is the folder of a user's script: it runs in a private view of it, or, `in_place`, in the folder itself.

        `replayed` is the plan that this one replays, whose control, under its own schedule, serves both. Without
        `agent` the ranks run as if we were not there, and nothing is judged: the verdict is VOID.
        """
        _require(plan)
        check_quotas(plan.ranks)
        self._session.renew()
        began = time.monotonic()
        programs = programs or packaged_programs()
        if plan.runner == "process":
            ProcessRunner(self._session, self._importable, programs, agent, self._zygotes).warm_up(plan)
        folder = self._new_folder(plan, where or programs)
        conduct: Callable[..., list[str]] = partial(self._conduct, where=where, in_place=in_place)
        void: list[str] = []
        try:
            if plan.command and plan.control and agent:
                plan, conduct, void = self._model_script(plan, folder, conduct, progress, where, in_place)
            elif plan.control and agent:
                void = self._model(control_plan(replayed or plan), folder / "control", programs, progress)
            if plan.reference and agent and not void:
                void += self._fresh_model(reference_plan(plan), folder / "reference", conduct, progress, "reference")
            elif "reference" in plan.oracles and not plan.command and agent:
                void += self._model(reference_plan(plan), folder / "reference", programs, progress)
            if not (void and plan.command):
                void += conduct(plan, folder, programs, progress, agent=agent)
        except NoSpaceError:
            void.append(f"no space left in {self.runs}")
        except CutShortError as error:
            void.append(str(error))
        except OSError as error:
            if error.errno not in FULL:
                raise
            void.append(f"no space left in {self.runs}")
        verdict = judge_saved(load_run(folder), list(dict.fromkeys(void)))
        result = Result(plan, verdict, folder, time.monotonic() - began, record)
        _save_verdict(result)
        return result

    def _model_script(
        self,
        plan: Plan,
        folder: Path,
        conduct: Callable[..., list[str]],
        progress: Watch | None,
        where: Path | None,
        in_place: bool,
    ) -> tuple[Plan, Callable[..., list[str]], list[str]]:
        """Run a user's script twice to compare with, the second time perhaps that of an earlier run.

        Return the plan with its ranks, how it is conducted now that its steps are known, and why nothing can be said.
        """
        wanted = control_plan(plan)
        void = self._fresh_model(wanted, folder / "control", conduct, progress, "control")
        if void:
            return plan, conduct, void
        conduct = partial(conduct, steps=_steps_of(read_history(folder / "control")))
        if plan.runner == "join":
            plan = resolve_launched(plan, read_history(folder / "control"))
            _write_plan(folder, plan)
            meta = read_meta(folder)
            _write_meta(folder, {**meta, MARK: mark(plan.dumps(), meta["programs"])})
        earlier = None if in_place else self._earlier_control(wanted, where, folder / "control")
        again = folder / "control-again"
        if earlier is not None:
            with removed_if_cut_short(again):
                shutil.copytree(earlier, again, ignore=shutil.ignore_patterns("work"))
        else:
            void = self._fresh_model(control_plan(plan), again, conduct, progress, "second control")
        return plan, conduct, void

    def watch(
        self,
        plan: Plan,
        where: Path,
        progress: Watch,
        ends: Callable[[Path, HungEvent], bool],
        started: Callable[[int, Path], None],
    ) -> Result:
        """Run a command in its own folder, with our own output, and only watch; return the result.

        `ends` is asked, with the run directory, when ranks do not move; `started` is told the command's pid and the run
        directory once it runs. Of each rank's history the beginning and the latest are kept.
        """
        folder = self._new_folder(plan, where)
        began = time.monotonic()
        runner = JoinRunner(self._session, self._importable, guest=True, started=lambda pid: started(pid, folder))
        asked = partial(ends, folder)
        Conductor(plan, folder, self._session, runner, progress, "watch", View(where), asked, keep=WATCHED_BYTES).run()
        result = Result(plan, judge_saved(load_run(folder)), folder, time.monotonic() - began)
        _save_verdict(result)
        return result

    def replay(
        self, folder: Path, programs: Path | None = None, progress: Watch | None = None
    ) -> tuple[Result, dict[str, Any]]:
        """Run a saved plan again, with the saved schedule; return the result and the saved verdict.

        A replay that parts from the saved run is VOID, with the first difference.
        """
        saved = load_run(folder)
        if saved.verdict is None:
            raise BreakrankError(f"{folder} was never judged: its run was cut short; start the scenario again")
        plan = saved.plan
        if plan.schedule.mode == "controlled":
            plan = replace(plan, schedule=_as_it_went(plan.schedule, saved.history))
        source = programs or programs_of(folder)
        if plan.command:
            result = self.run(plan, None, None, progress, where=source)
        else:
            result = self.run(plan, None, source, progress, replayed=saved.plan)
        if result.verdict.digest != saved.verdict["digest"]:
            difference = explain_difference(saved.history, load_run(result.folder).history)
            verdict = replace(
                result.verdict,
                outcome=Outcome.VOID,
                void=(f"the replay diverged from {folder.name}: {difference}", *result.verdict.void),
            )
            result = replace(result, verdict=verdict)
            _save_verdict(result)
        return result, saved.verdict

    def _new_folder(self, plan: Plan, programs: Path) -> Path:
        if free_space(self.runs) < (plan.ranks + 4) * 2 * DEFAULT_SIZE:
            raise NoSpaceError(f"no space is left in {self.runs} for the records of {plan.ranks} ranks; free some")
        stem = f"{plan.scenario}-{plan.case}-s{plan.seed}"
        for number in range(1, 1_000_000):
            folder = self.runs / f"{stem}-{number:04d}"
            with contextlib.suppress(FileExistsError):
                return self._hold(_fill(folder, plan, programs, keep=True))
        raise BreakrankError(f"{self.runs} holds too many runs of {stem}; remove some")

    def _hold(self, folder: Path) -> Path:
        """Lock a run directory until the next one is made, or the bench is closed: it does not make room so long."""
        held, self._held = self._held, hold(folder)
        if held is not None:
            os.close(held)
        return folder

    def _conduct(
        self,
        plan: Plan,
        folder: Path,
        programs: Path,
        watch: Watch | None,
        agent: bool = True,
        phase: str = "run",
        where: Path | None = None,
        in_place: bool = False,
        steps: int = 0,
    ) -> list[str]:
        """Run the ranks, which make `steps` steps if that is known; return why nothing can be said of it."""
        runner: Runner
        view = None
        if plan.runner == "join":
            runner = JoinRunner(self._session, self._importable, agent)
        elif plan.runner == "docker":
            runner, view = self._in_containers(plan, folder, programs, agent, where)
            where = None
        else:
            runner = RUNNERS[plan.runner](self._session, self._importable, programs, agent, self._zygotes)
        if where is not None:
            view = View(where) if in_place else make_view(self._session, where, folder, self.runs, self._importable)
            if view.holder:
                self._session.kept.add(view.holder)
        room = Room(self.runs)
        try:
            Conductor(plan, folder, self._session, runner, watch, phase, view, steps=steps, room=room).run()
            room.look()
        except Diverged as error:
            return [f"the replay diverged: {error}"]
        finally:
            if where is not None and view is not None and view.holder:
                self._session.kept.discard(view.holder)
                # Without a warden they end with the session, or with the next one's start.
                with contextlib.suppress(CutShortError):
                    self._session.clear()
                close_view(view, folder, self.runs)
        return [room.lack] if room.lack else []

    def _in_containers(
        self, plan: Plan, folder: Path, programs: Path, agent: bool, where: Path | None
    ) -> tuple[Runner, View]:
        """Start the containers that the ranks will run in, with what they work on; return the runner and the view."""
        docker = docker_runner()
        if self._clusters is None:
            self._clusters = docker.Clusters(self._session, self._staged)
        left_out: tuple[str, ...] = ()
        if where is not None:
            left_out = copy_folder(where, folder / "work", self.runs, "the ranks are in containers")
        runner = docker.DockerRunner(
            self._session, self._staged, programs, agent, clusters=self._clusters, cold=self._cold
        )
        return runner, replace(runner.lay(plan, folder), notes=left_out)

    def _fresh_model(
        self, wanted: Plan, folder: Path, conduct: Callable[..., list[str]], watch: Watch | None, phase: str
    ) -> list[str]:
        """Run a user's script to compare with. Return why it failed."""
        what = phase.removeprefix("second ")
        void = conduct(wanted, _fill(folder, wanted, folder), folder, watch, phase=phase)
        if void:
            return void
        history = read_history(folder)
        if not history.attempts:
            return [f"the {what} failed: {why_no_rank(history, wanted)}"]
        return _why_failed(history, what)

    def _earlier_control(self, wanted: Plan, where: Path | None, control: Path) -> Path | None:
        """Return the control of an earlier run of this session that had the same plan, and remember this one.

        It is the second control of a script: what changes from one run to the next is seen in a script that is run
        later as well as in one that is run twice, and the control that a run is compared with is always its own.
        """
        key = (wanted.dumps(), where)
        earlier, self._controls[key] = self._controls.get(key), control
        # The oldest runs make room, perhaps that one.
        return earlier if earlier is not None and (earlier / "plan.json").exists() else None

    def _model(self, wanted: Plan, folder: Path, programs: Path, watch: Watch | None) -> list[str]:
        """Lay a control's or reference's history into a folder, from the cache or by a run; return why it failed."""
        kept = self.runs / "controls" / self._control_key(wanted, programs)
        void: list[str] = []
        if not (kept / "plan.json").exists():
            make_part(kept.parent)
            scratch = kept.with_name(f"{kept.name}.{os.getpid()}")
            try:
                void = self._conduct(wanted, _fill(scratch, wanted, programs), programs, watch, phase=folder.name)
                void += _why_failed(read_history(scratch), folder.name)
                if void:
                    shutil.move(scratch, folder)
                    return void[:1]
                shutil.rmtree(scratch / "work")
                seal(scratch)
                with contextlib.suppress(OSError):
                    scratch.rename(kept)
            finally:
                # It is still there if it was cut short, or if somebody else was first, whose is as good.
                shutil.rmtree(scratch, ignore_errors=True)
        with removed_if_cut_short(folder):
            shutil.copytree(kept, folder)
        return void

    def _control_key(self, plan: Plan, programs: Path) -> str:
        """Return what a control depends on, as a name: plan, programs, agent, data and versions."""
        import breakrank.fixtures.data as data

        parts = [plan.dumps(), self._staged.name, *_software(plan)]
        parts += [path.read_text() for path in sorted(programs.glob("*.py"))]
        parts.append(Path(data.__file__).read_text())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _steps_of(control: History) -> int:
    """Return how many steps the ranks of a control made."""
    return max((lived.last_step for lived in control.last), default=0)


def _as_it_went(schedule: Schedule, history: History) -> Schedule:
    """Return a schedule that makes the choices of a saved run once more, among ranks and among their threads."""
    turns = tuple(e["rank"] for e in history.seen("turn"))
    return replace(schedule, policy="replay", choices=turns, threads=tuple(map(picks, history.attempt(0))))


def packaged_programs() -> Path:
    """Return the folder of the programs that come with us."""
    spec = importlib.util.find_spec("breakrank.fixtures.programs")
    if spec is None or not spec.submodule_search_locations:
        raise BreakrankError("the programs of Breakrank are not installed; reinstall pytest-breakrank")
    return Path(next(iter(spec.submodule_search_locations)))


def _write_plan(folder: Path, plan: Plan) -> None:
    """Write `plan.json` whole or not at all: whoever starts a run can be killed at any moment."""
    new = folder / "plan.json.new"
    new.write_text(plan.dumps())
    new.replace(folder / "plan.json")


def _write_meta(folder: Path, meta: dict[str, Any]) -> None:
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


def _fill(folder: Path, plan: Plan, programs: Path, keep: bool = False) -> Path:
    """Make a run directory: the plan, what it runs on, the working folder with its data, and room for the verdict."""
    from breakrank.fixtures.data import lay

    try:
        make_private(folder)
        _write_plan(folder, plan)
        _write_meta(folder, _meta(plan, programs))
        (folder / "work").mkdir()
        # Nothing has happened yet; where the control fails, nothing ever does.
        (folder / "conductor.jsonl").touch()
        if keep:
            keep_room(folder)
        lay(plan.data, folder / "work", plan.seed, plan.ranks * plan.merged)
    except FileExistsError:
        raise
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise unwritable(f"cannot write the run directory {folder.name}", folder.parent, error) from None
    return folder


def _meta(plan: Plan, programs: Path) -> dict[str, Any]:
    if plan.runner == "docker":
        docker = docker_runner()
        has = docker.versions(plan.image)
        software = {"image": plan.image, "image id": docker.find_image(plan.image).id, "versions": dict(has)}
        software |= {"python": has["python"], plan.framework: has.get(plan.framework, "missing")}
    else:
        software = {"python": platform.python_version(), plan.framework: _version(plan.framework)}
    return {
        "version": 1,
        MARK: mark(plan.dumps(), str(programs)),
        "breakrank": _version("pytest-breakrank"),
        **software,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "plan": plan.key(),
        "programs": str(programs),
    }


@functools.cache
def _version(distribution: str) -> str:
    # A framework's build without CUDA is a distribution of its own.
    for name in (distribution, f"{distribution}-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "missing"


def _require(plan: Plan) -> None:
    if plan.runner == "docker":
        lack = docker_runner().lacking(plan.image, plan.framework)
        if lack:
            raise BreakrankError(lack)
    elif importlib.util.find_spec(plan.framework) is None:
        raise BreakrankError(
            f"{plan.framework} is not installed for {sys.executable}: install it there, as in 'pip install "
            f"{plan.framework}'"
        )


def _software(plan: Plan) -> list[str]:
    """Return what of the software that runs the ranks a result may depend on."""
    if plan.runner == "docker":
        return [str(docker_runner().find_image(plan.image).id)]
    return [platform.python_version(), _version(plan.framework)]


def _save_verdict(result: Result) -> None:
    """Write `verdict.json`; where it does not find room, what it is worth without what the oracles found."""
    try:
        write_verdict(result.folder, _verdict_text(result))
    except OSError as error:
        if error.errno not in FULL:
            raise unwritable("the verdict cannot be written", result.folder, error) from None
        void = (f"no space left in {result.folder.parent}", *result.verdict.void)
        bare = Verdict(Outcome.VOID, void=tuple(dict.fromkeys(void)), digest=result.verdict.digest)
        write_verdict(result.folder, _verdict_text(replace(result, verdict=bare)))
    seal(result.folder)


def _verdict_text(result: Result) -> bytes:
    saved = {
        **result.verdict.to_json(),
        "record": result.record.words() if result.record else None,
        "as_recorded": result.as_recorded,
        "seconds": round(result.seconds, 3),
    }
    return json.dumps(saved, indent=1).encode() + b"\n"


def _why_failed(control: History, what: str = "control") -> list[str]:
    """Return why a control or reference cannot be compared with: how ranks, or the launcher, ended that failed."""
    return [
        *(f"the {what} failed: {damage}" for damage in say_damage(control)),
        *(
            f"the {what} failed: rank {lived.rank} {_how(lived.status, lived.report)}"
            for lived in control.last
            if not lived.ended_well
        ),
        *(f"the {what} failed: the launcher ended with exit code {e['status']}" for e in control.launcher_failures),
    ]


def _how(status: int | None, report: ReportEvent | None) -> str:
    if report is not None:
        return f"raised {report['type']}: {report['message'].splitlines()[0] if report['message'] else ''}"
    return f"ended with status {status}"
