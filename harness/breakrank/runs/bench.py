"""The bench, where runs are made: one run from its request to its verdict, a replay, and a job that is only watched."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from breakrank.conductor.conductor import WARMING, Conductor, Progress
from breakrank.doctor import missing_framework
from breakrank.errors import BreakrankError, CutShortError, NoSpaceError
from breakrank.files.disk_space import FULL, Room
from breakrank.files.private import make_runs
from breakrank.history.reader import History, picks
from breakrank.host.agent_link import is_passable, make_detour, remove_detours
from breakrank.host.session import Session, sweep
from breakrank.host.user_limits import check_quotas
from breakrank.judge.run_digest import explain_difference
from breakrank.nodes.host_names import HERE, Hosts
from breakrank.plan.for_scripts import start_once
from breakrank.runners import cgroups, find_runner
from breakrank.runners.base import StartsOwnRanks
from breakrank.runners.join import JoinRunner, engine_of
from breakrank.runners.kind import Resources
from breakrank.runners.process import stage_agent
from breakrank.runners.workdir import View
from breakrank.runs.controls import Controls
from breakrank.runs.directory import fill
from breakrank.runs.request import Request, Watch
from breakrank.runs.result import Result
from breakrank.runs.retention import hold, make_room
from breakrank.runs.saved_run import judge_saved, load_run, programs_of
from breakrank.verdict import Outcome
from breakrank_agent.plan import Plan, Schedule
from breakrank_agent.protocol.events import HungEvent
from breakrank_agent.protocol.log import DEFAULT_SIZE
from breakrank_agent.schedules import Diverged

_T = TypeVar("_T")

#: Bytes of each rank's history that are kept of a job that is watched, for days maybe.
WATCHED_BYTES = 16 << 20


class Bench:
    """The maker of runs: one per pytest process. It owns the supervisor and the folder of the runs.

    `limit_mb` bounds the folder: the oldest finished runs make room. `controller_pid` is another process whose death
    ends everything here, too (the xdist controller). Ranks are forked from a warm process unless `cold`;
    `agent_source` is another agent than the installed one, `session` another session than one with a supervisor of its
    own; `hosts` are those that ranks can be started on. Raises `BreakrankError` if the folder cannot be used.
    """

    def __init__(
        self,
        runs: Path,
        limit_mb: int = 500,
        controller_pid: int | None = None,
        cold: bool = False,
        agent_source: Path | None = None,
        session: Session | None = None,
        hosts: Hosts = HERE,
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
        self._resources = Resources(self._session, self.runs, self._staged, self._importable, cold, hosts)
        self._controls = Controls(self.runs, self._staged.name, self._conduct)
        self._held: int | None = None
        #: The scripts that start their ranks themselves, as a run of theirs has shown: their commands and folders.
        self._start_own: set[tuple[tuple[str, ...], Path | None]] = set()

    @property
    def supervisor_pid(self) -> int:
        """The process below which everything of this bench runs."""
        return self._session.supervisor_pid

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End whatever still runs, and the supervisor: each of them, whatever the others raise."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._session.close)
            if self._held is not None:
                ends.callback(os.close, self._held)
                self._held = None
            if self._importable != self._staged:
                ends.callback(remove_detours, self._session.id)
            ends.callback(self._resources.close)

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

    def run(self, request: Request) -> Result:
        """Run a plan and judge it. Raises `BreakrankError` if it cannot be run here."""
        return self._started_as_it_is(request, self._run)

    def record(self, request: Request, phase: str, steps: int = 0) -> tuple[Path, list[str]]:
        """Run a plan by itself, and judge nothing yet; return its run directory, and why nothing can be said of it.

        The ranks make `steps` steps, if that is known. Raises `BreakrankError` if it cannot be run here.
        """

        def go(asked: Request) -> tuple[Path, list[str]]:
            folder = self._prepare(asked)
            void: list[str] = []
            with self._within_room(folder, void):
                void += self._conduct(asked, folder, phase, steps)
            return folder, list(dict.fromkeys(void))

        return self._started_as_it_is(request, go)

    def _started_as_it_is(self, request: Request, make: Callable[[Request], _T]) -> _T:
        """Make something of a request; anew, if its script turns out to start its ranks itself: then it starts once."""
        script = request.plan.command, request.where
        if script not in self._start_own or request.plan.runner != "process":
            try:
                return make(request)
            except StartsOwnRanks:
                self._start_own.add(script)
        return make(replace(request, plan=start_once(request.plan)))

    def _run(self, request: Request) -> Result:
        began = time.monotonic()
        folder = self._prepare(request)
        void: list[str] = []
        with self._within_room(folder, void):
            request, steps, failed = self._controls.control(request, folder)
            void += failed
            void += self._controls.reference(request, folder, steps, bool(void))
            if not (void and request.plan.command):
                void += self._conduct(request, folder, steps=steps)
        verdict = judge_saved(load_run(folder), list(dict.fromkeys(void)))
        result = Result(request.plan, verdict, folder, time.monotonic() - began, request.record)
        result.save()
        return result

    def _prepare(self, request: Request) -> Path:
        """Make the run directory of a plan. Raises `BreakrankError` if it cannot be run here."""
        plan = request.plan
        lack = missing_framework(plan.framework, plan.runner, plan.image)
        if lack:
            raise BreakrankError(lack)
        check_quotas(plan.ranks)
        self._session.renew()
        find_runner(plan.runner).warm_up(self._resources, plan)
        zygotes = self._resources.zygotes
        if request.progress is not None and zygotes is not None and zygotes.warming:
            request.progress(Progress(f"{WARMING}{zygotes.warming}", 0, {}))
        return self._new_folder(plan, request.where or request.code)

    @contextlib.contextmanager
    def _within_room(self, folder: Path, void: list[str]) -> Iterator[None]:
        """Note in `void` that the disk was full, or that the session was cut short."""
        try:
            yield
        except StartsOwnRanks:
            shutil.rmtree(folder)
            raise
        except NoSpaceError:
            void.append(f"no space left in {self.runs}")
        except CutShortError as error:
            void.append(str(error))
        except OSError as error:
            if error.errno not in FULL:
                raise
            void.append(f"no space left in {self.runs}")

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
        engine = engine_of(plan.command, where)
        runner = JoinRunner(
            self._session, self._importable, guest=True, started=lambda pid: started(pid, folder), engine=engine
        )
        asked = partial(ends, folder)
        Conductor(plan, folder, self._session, runner, progress, "watch", View(where), asked, keep=WATCHED_BYTES).run()
        result = Result(plan, judge_saved(load_run(folder)), folder, time.monotonic() - began)
        result.save()
        return result

    def replay(
        self, folder: Path, programs: Path | None = None, progress: Watch | None = None
    ) -> tuple[Result, dict[str, Any]]:
        """Run a saved plan again, with the saved schedule; return the result and the saved verdict.

        A replay that diverges from the saved run is VOID, with the first difference.
        """
        saved = load_run(folder)
        if saved.verdict is None:
            raise BreakrankError(f"{folder} was never judged: its run was cut short; start the scenario again")
        plan = saved.plan
        if plan.schedule.mode == "controlled":
            plan = replace(plan, schedule=_as_it_went(plan.schedule, saved.history))
        source = programs or programs_of(folder)
        if plan.command:
            result = self.run(Request(plan, progress=progress, where=source))
        else:
            result = self.run(Request(plan, programs=source, progress=progress, replayed=saved.plan))
        if result.verdict.digest != saved.verdict["digest"]:
            difference = explain_difference(saved.history, load_run(result.folder).history)
            verdict = replace(
                result.verdict,
                outcome=Outcome.VOID,
                void=(f"the replay diverged from {folder.name}: {difference}", *result.verdict.void),
            )
            result = replace(result, verdict=verdict)
            result.save()
        return result, saved.verdict

    def _new_folder(self, plan: Plan, programs: Path) -> Path:
        if shutil.disk_usage(self.runs).free < (plan.ranks + 4) * 2 * DEFAULT_SIZE:
            raise NoSpaceError(f"no space is left in {self.runs} for the records of {plan.ranks} ranks; free some")
        stem = f"{plan.scenario}-{plan.case}-s{plan.seed}"
        for number in range(1, 1_000_000):
            folder = self.runs / f"{stem}-{number:04d}"
            with contextlib.suppress(FileExistsError):
                return self._hold(fill(folder, plan, programs, keep=True))
        raise BreakrankError(f"{self.runs} holds too many runs of {stem}; remove some")

    def _hold(self, folder: Path) -> Path:
        """Lock a run directory until the next one is made, or the bench is closed: it does not make room so long."""
        held, self._held = self._held, hold(folder)
        if held is not None:
            os.close(held)
        return folder

    def _conduct(self, request: Request, folder: Path, phase: str = "run", steps: int = 0) -> list[str]:
        """Run the ranks, which make `steps` steps if that is known; return why nothing can be said of it."""
        plan, room = request.plan, Room(self.runs)
        with find_runner(plan.runner).prepare(self._resources, request.spec(folder)) as (runner, view):
            watch = request.progress
            conductor = Conductor(
                plan, folder, self._session, runner, watch, phase, view, steps=steps, room=room, most_s=request.most_s
            )
            try:
                conductor.run()
                room.look()
            except Diverged as error:
                return [f"the replay diverged: {error}"]
        return [room.lack] if room.lack else []


def _as_it_went(schedule: Schedule, history: History) -> Schedule:
    """Return a schedule that makes the choices of a saved run once more, among ranks and among their threads."""
    turns = tuple(e["rank"] for e in history.seen("turn"))
    return replace(schedule, policy="replay", choices=turns, threads=tuple(map(picks, history.attempt(0))))
