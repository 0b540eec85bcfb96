"""The runs that a run is compared with: its control, for a script twice, and its reference."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from breakrank.files.disk_space import removed_if_cut_short
from breakrank.files.private import make_part, seal
from breakrank.history.reader import History, read_history
from breakrank.judge.sufficiency import say_damage, why_no_rank
from breakrank.plan.build import control_plan, reference_plan
from breakrank.plan.for_scripts import resolve_launched
from breakrank.runners import find_runner
from breakrank.runners.base import StartsOwnRanks
from breakrank.runs.directory import fill, replace_plan
from breakrank.runs.request import Request
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import ReportEvent

#: The fields of a plan that say when ranks are given up, and how they are judged: runs that end well differ in nothing.
_NO_MATTER: dict[str, Any] = {"oracles": (), "tolerance": 0.0, "deadline_s": 0.0, "patience_s": 0.0}


class Conduct(Protocol):
    """Runs the ranks of a request in a run directory; returns why nothing can be said of it."""

    def __call__(self, request: Request, folder: Path, phase: str = "run", steps: int = 0) -> list[str]:
        """Run them. The ranks make `steps` steps, if that is known."""


class Controls:
    """Makes the runs that others are compared with, or takes them from those that were made before.

    Controls of programs are kept in `runs`, as long as nothing changes that they depend on: `agent` is the name of the
    agent's copy. Those of scripts are known for as long as this object.
    """

    def __init__(self, runs: Path, agent: str, conduct: Conduct) -> None:
        self._runs = runs
        self._agent = agent
        self._conduct = conduct
        self._earlier: dict[tuple[str, Path | None], Path] = {}

    def control(self, request: Request, folder: Path) -> tuple[Request, int, list[str]]:
        """Lay the control of a run into its directory, if it has one.

        Return the request with what is known now, how many steps the ranks make, 0 if that is not known, and why
        nothing can be said.
        """
        plan = request.plan
        if not (plan.control and request.agent):
            return request, 0, []
        if plan.command:
            return self._control_script(request, folder)
        wanted = replace(request, plan=control_plan(request.replayed or plan))
        return request, 0, self._lay(wanted, folder / "control")

    def reference(self, request: Request, folder: Path, steps: int, failed: bool) -> list[str]:
        """Lay the reference of a run into its directory, if it has one; return why nothing can be said.

        A script's is not run if its control `failed`.
        """
        plan = request.plan
        if not request.agent or not (plan.reference or ("reference" in plan.oracles and not plan.command)):
            return []
        wanted = replace(request, plan=reference_plan(plan))
        if not plan.reference:
            return self._lay(wanted, folder / "reference")
        try:
            return [] if failed else self._run(wanted, folder / "reference", "reference", steps)
        except StartsOwnRanks:
            name = " ".join(plan.reference)
            return [f"the reference failed: '{name}' starts ranks itself; name a command that is one rank"]

    def _control_script(self, request: Request, folder: Path) -> tuple[Request, int, list[str]]:
        """Run a user's script twice to compare with, the second time perhaps that of an earlier run."""
        wanted = replace(request, plan=control_plan(request.plan))
        void = self._run(wanted, folder / "control", "control")
        if void:
            return request, 0, void
        control = read_history(folder / "control")
        steps = max((lived.last_step for lived in control.last), default=0)
        if find_runner(request.plan.runner).joins:
            plan = resolve_launched(request.plan, control.world(control.attempts[-1]))
            request = replace(request, plan=plan)
            replace_plan(folder, plan)
        earlier = None if request.in_place else self._find_earlier(wanted, folder / "control")
        again = folder / "control-again"
        if earlier is not None:
            with removed_if_cut_short(again):
                shutil.copytree(earlier, again, ignore=shutil.ignore_patterns("work"))
        else:
            void = self._run(replace(request, plan=control_plan(request.plan)), again, "second control", steps)
        return request, steps, void

    def _find_earlier(self, wanted: Request, control: Path) -> Path | None:
        """Return the control of an earlier run of this session that had the same plan, and remember this one.

        It is the second control of a script: what changes from one run to the next is seen in a script that is run
        later as well as in one that is run twice, and the control that a run is compared with is always its own.
        """
        key = (wanted.plan.dumps(), wanted.where)
        earlier, self._earlier[key] = self._earlier.get(key), control
        # The oldest runs make room, perhaps that one.
        return earlier if earlier is not None and (earlier / "plan.json").exists() else None

    def _run(self, wanted: Request, folder: Path, phase: str, steps: int = 0) -> list[str]:
        """Run a user's script to compare with. Return why it failed."""
        what = phase.removeprefix("second ")
        fill(folder, wanted.plan, folder)
        void = self._conduct(replace(wanted, programs=folder), folder, phase, steps)
        if void:
            return void
        history = read_history(folder)
        if not history.attempts:
            return [f"the {what} failed: {why_no_rank(history, wanted.plan)}"]
        return _why_failed(history, what)

    def _lay(self, wanted: Request, folder: Path) -> list[str]:
        """Lay a control's or reference's history into a folder, from the cache or by a run; return why it failed."""
        wanted = replace(wanted, where=None, in_place=False)
        kept = self._runs / "controls" / self._key(wanted.plan, wanted.code)
        void: list[str] = []
        if not (kept / "plan.json").exists():
            make_part(kept.parent)
            scratch = kept.with_name(f"{kept.name}.{os.getpid()}")
            try:
                fill(scratch, wanted.plan, wanted.code)
                void = self._conduct(wanted, scratch, folder.name)
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

    def _key(self, plan: Plan, programs: Path) -> str:
        """Return what a control that ends well depends on, as a name: plan, programs, agent, data and versions."""
        import breakrank.fixtures.data as data

        software = find_runner(plan.runner).software(plan)
        parts = [replace(plan, **_NO_MATTER).dumps(), self._agent, json.dumps(software, sort_keys=True)]
        parts += [path.read_text() for path in sorted(programs.glob("*.py"))]
        parts += [path.read_text() for path in sorted(Path(data.__file__).parent.glob("*.py"))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _why_failed(control: History, what: str) -> list[str]:
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
