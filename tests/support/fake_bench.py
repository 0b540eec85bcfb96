"""A plugin that replaces the bench: a run is made up in a moment, from the name of its program.

`fake:sound` survives, `fake:silent` loses an update, `fake:void` says nothing, `fake:flaky` has another digest each
time, `fake:fickle` is wrong at even seeds, `fake:moody` at the first run of a process, `fake:broken` cannot be run,
`fake:interrupt` is interrupted, `fake:twice` twice at once, `fake:waits` until somebody does that, `fake:slow` shows
progress for a while, `fake:killed` is killed with the process that it runs in.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import time

import pytest

from breakrank.conductor.conductor import WARMING, Progress
from breakrank.errors import BreakrankError
from breakrank.runs.provenance import MARK, mark
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Blame, Finding, Outcome, Verdict

EVENTS = [
    {"rank": 0, "turn": 1, "mode": "r", "op": "sub.Tensor", "step": 2},
    {"rank": 1, "turn": 2, "mode": "r", "op": "sub.Tensor", "step": 2},
    {"rank": 1, "turn": 3, "mode": "w", "op": "sub.Tensor", "step": 2},
    {"rank": 0, "turn": 4, "mode": "w", "op": "sub.Tensor", "step": 2},
]
LOST = Finding(
    "race",
    "lost update",
    (1,),
    2,
    evidence={"how": "1 of 2 updates arrived: rank 1 wrote over the other", "events": EVENTS},
)


def verdict(program, seed, digest):
    if program == "fake:fickle" and seed % 2 == 0:
        return Verdict(Outcome.SILENT, (Finding("control", "wrong result", (0,), 2),), digest=digest)
    if program == "fake:silent":
        return Verdict(Outcome.SILENT, (LOST,), Blame((1,), "it wrote what it had read before"), digest=digest)
    if program == "fake:void":
        return Verdict(Outcome.VOID, void=("the strike did not land",), digest=digest)
    return Verdict(Outcome.SURVIVED, digest=digest)


class FakeBench:
    def __init__(self, runs, limit_mb=500, controller_pid=None, cold=False, hosts=None):
        self.runs = runs
        self.made = 0
        runs.mkdir(exist_ok=True)
        (runs / f"bench-of-{controller_pid}").touch()

    def close(self):
        for _ in range(int(os.environ.get("FAKE_PRESSES", "0"))):
            os.kill(os.getpid(), signal.SIGINT)
        (self.runs / "closed").touch()

    def run(self, request):
        plan, record = request.plan, request.record
        # A script is what its last word says.
        program = plan.program or f"fake:{plan.command[-1]}"
        if plan.program == "fake:broken":
            raise BreakrankError("the supervisor process is gone;\nwas it killed?")
        if plan.program == "fake:interrupt":
            raise KeyboardInterrupt
        if plan.program == "fake:twice":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()
            finally:
                os.kill(os.getpid(), signal.SIGINT)
        if plan.program == "fake:waits":
            request.progress(Progress(f"{WARMING}torch", 0, {}))
            signal.pause()
        if plan.program == "fake:killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if plan.program == "fake:slow":
            for step in range(1, 5):
                time.sleep(0.15)
                request.progress(Progress("run", 0, {0: (step, "collective"), 1: (step, "backward")}))
        self.made += 1
        digest = f"{plan.key()}{self.made if plan.program == 'fake:flaky' else ''}"
        digest = os.environ.get("FAKE_DIGEST", digest)
        folder = self._folder(plan)
        if program == "fake:moody":
            program = "fake:fickle" if self.made == 1 else "fake:sound"
        result = Result(plan, verdict(program, plan.seed, digest), folder, 0.25, record)
        saved = {**result.verdict.to_json(), "record": record.words() if record else None, "as_recorded": None}
        (folder / "verdict.json").write_text(json.dumps({**saved, "as_recorded": result.as_recorded, "seconds": 0.25}))
        return result

    def replay(self, folder, programs=None, progress=None):
        saved = load_run(folder)
        return self.run(Request(saved.plan, programs=programs, progress=progress)), saved.verdict

    def _folder(self, plan):
        for number in range(1000):
            folder = self.runs / f"{plan.scenario}-{plan.case}-{number:04d}"
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                break
        (folder / "attempt-0").mkdir()
        (folder / "plan.json").write_text(plan.dumps())
        (folder / "meta.json").write_text(json.dumps({"programs": "/", MARK: mark(plan.dumps(), "/")}))
        conductor = []
        for rank in range(plan.ranks):
            common = {"seq": "main", "n": 0, "t": 0.0}
            points = [{"kind": "point", "point": "step", "step": step, "visit": 1, **common} for step in (1, 2)]
            end = {"kind": "end", "how": "returned", "code": 0, "step": 2, "state": None, "params": "", **common}
            lines(folder / "attempt-0" / f"rank-{rank}.jsonl", [*points, end])
            conductor.append({"kind": "spawned", "t": 0.0, "attempt": 0, "rank": rank, "pid": 0})
            conductor.append({"kind": "exit", "t": 0.0, "attempt": 0, "rank": rank, "status": 0, "ended": False})
        lines(folder / "conductor.jsonl", conductor)
        return folder


def lines(path, events):
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    # The plugin that was loaded last would be configured first: this hook comes before any is.
    import breakrank.plugin as plugin
    import breakrank.plugin.session_state as active
    import breakrank.plugin.slips as slips

    early_config.add_cleanup(lambda real=active.Bench: setattr(active, "Bench", real))
    active.Bench = FakeBench
    # The module has the name of the fixture, and its import would take the fixture's place.
    fixture = plugin.launch
    launching = importlib.import_module("breakrank.plugin.launch")
    plugin.launch = fixture
    early_config.add_cleanup(lambda real=launching.Bench: setattr(launching, "Bench", real))
    launching.Bench = FakeBench
    real = slips.wrong_with_program
    early_config.add_cleanup(lambda: setattr(slips, "wrong_with_program", real))
    # The programs that this bench knows lie nowhere; those of the catalogue are looked for as ever.
    slips.wrong_with_program = lambda program, *more: (
        "" if program.startswith(("fake:", "x:")) else real(program, *more)
    )
