"""A hundred kills at drawn moments, of each process that a run consists of: nothing hangs, and nothing is left.

Goal: pytest ends in time with its table, unless pytest itself was killed; nothing of the session is left.
Method: a seed draws the victim, and the number of records at which it is killed; /proc and the engine tell of the
processes, containers and networks that are left.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support import containers
from support.killed import Job, dead, network
from test_killed import REMOVED_S, in_the_engine

from breakrank.doctor import missing

pytestmark = pytest.mark.soak

#: The number of kills in each runner: a hundred in all.
TRIES = {"process": 34, "sandbox": 33, "docker": 33}
#: The seconds that pytest may take to end once a process of its run was killed. A limit, no more.
ENDS_S = 240.0
#: The most records that a run is let write before the kill; every run writes more.
MOST_RECORDS = 14

SCRIPT = Path(__file__).parents[1] / "scripts" / "plain_loop.py"
#: A traceback of ours in what pytest prints: ranks print their own.
OURS = re.compile(r"INTERNALERROR|harness/breakrank/[\w/]+\.py[:\"]")
HEADLINE = re.compile(r"^\d+ (as recorded|fine), ", re.MULTILINE)


def zygotes(job: Job) -> list[psutil.Process]:
    """Return the zygotes: the processes with a zygote's command line that are no ranks."""
    return [one for one in job.processes("breakrank_agent.start.zygote") if one.pid not in spawned(job)]


def spawned(job: Job) -> list[int]:
    """Return the pids of the ranks that were started, the latest first."""
    events = [json.loads(line) for line in records(job) if line.startswith(b'{"kind":"spawned"')]
    return [event["pid"] for event in sorted(events, key=lambda event: -event["t"])]


def records(job: Job) -> list[bytes]:
    """Return the whole lines that Conductors of this job have written."""
    lines: list[bytes] = []
    # Folders come and go during the walk.
    for where, _, names in os.walk(job.folder / ".breakrank"):
        if "conductor.jsonl" in names:
            with contextlib.suppress(FileNotFoundError):
                written = Path(where, "conductor.jsonl").read_bytes().splitlines(keepends=True)
                lines += [line for line in written if line.endswith(b"\n")]
    return lines


def workers(job: Job) -> list[psutil.Process]:
    """Return the workers of pytest-xdist, which execnet starts by this line."""
    return [one for one in psutil.Process(job.owner.pid).children() if "exec(eval(" in " ".join(one.cmdline())]


#: By victim, the function that finds its processes once they are there.
VICTIMS: dict[str, Callable[[Job], list[psutil.Process]]] = {
    "pytest": lambda job: [psutil.Process(job.owner.pid)],
    "supervisor": lambda job: job.processes("supervisor.py"),
    "zygote": zygotes,
    "rank": lambda job: [psutil.Process(pid) for pid in spawned(job) if psutil.pid_exists(pid)][:1],
    "holder": lambda job: job.processes("overlay.py") + job.processes("bridge.py") or zygotes(job),
    "worker": workers,
}


def start(folder: Path, runner: str, victim: str) -> Job:
    """Start a pytest that has such a victim in such a runner."""
    options = {
        "process": [],
        "sandbox": ["--scenario-runner=sandbox"],
        "docker": [f"--scenario-image={containers.TORCH}"],
    }
    if victim == "worker":
        return Job(folder, "-n2", "-k", "torch-resuming or torch-plain", *options[runner], case="killed_rank")
    if victim == "holder" and runner != "docker":
        shutil.copy(SCRIPT, folder / "train.py")
        return Job(folder, "--scenario-train=train.py", "-k", "collective", *options[runner], case="killed_rank")
    return Job(folder, *options[runner])


def kill(job: Job, victim: str, after: int) -> str:
    """Kill the victim once so many records are there; return the result."""
    while job.owner.poll() is None:
        # The sleep orders nothing: each look takes processor time from the processes that it looks at.
        time.sleep(0.01)
        if len(records(job)) < after:
            continue
        found: list[psutil.Process] = []
        try:
            found = VICTIMS[victim](job)
            for one in found[:1]:
                os.kill(one.pid, signal.SIGKILL)
                return "killed"
        except (psutil.Error, ProcessLookupError):
            continue
    return "over before"


def left(job: Job, networks: set[str]) -> list[object]:
    """Return the remains of a job: processes, containers and volumes of the engine, networks with a process in them."""
    processes: list[object] = [process for process in job.processes() if not dead(process)]
    inside = networks & {network(pid) for pid in psutil.pids()}
    engine = in_the_engine(job) if not containers.lacking() else []
    return [*processes, *inside, *engine]


@pytest.mark.parametrize("runner", TRIES)
def test_nothing_hangs_and_nothing_is_left_whoever_is_killed(
    tmp_path: Path, runner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if runner == "docker":
        containers.require(containers.TORCH)
    elif runner == "sandbox" and (lack := missing(["netns"])):
        pytest.skip(lack)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(TRIES[runner]):
        draw = random.Random(f"{runner}:{seed}")
        victim, after = list(VICTIMS)[seed % len(VICTIMS)], draw.randrange(MOST_RECORDS)
        # Before it has a case, a worker that dies is an internal error of pytest-xdist.
        after = max(after, victim == "worker")
        folder = tmp_path / str(seed)
        folder.mkdir()
        job = start(folder, runner, victim)
        outcome = kill(job, victim, after)
        networks = job.networks()
        counts["tries"] += 1
        counts[f"{victim} {outcome}"] += 1
        told = f"{runner}, seed {seed}: {victim} {outcome} after {after} records"
        try:
            job.owner.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            counts["hangs"] += 1
            wrong.append(f"{told}: pytest did not end")
            job.kill()
        printed = job.printed.read_text(errors="replace")
        if OURS.search(printed):
            counts["tracebacks"] += 1
            wrong.append(f"{told}: a traceback of ours:\n{printed[-3000:]}")
        elif victim != "pytest" and not HEADLINE.search(printed):
            counts["without a headline"] += 1
            wrong.append(f"{told}: no headline:\n{printed[-3000:]}")
        until = time.monotonic() + REMOVED_S
        while remains := left(job, networks):
            if time.monotonic() > until:
                counts["leftovers"] += 1
                wrong.append(f"{told}: left: {remains}")
                break
    with capsys.disabled():
        zero = {name: counts[name] for name in ("tracebacks", "hangs", "leftovers", "without a headline")}
        print(f"\n{runner}: {dict(counts) | zero}")
    assert not wrong, "\n\n".join(wrong)
