"""Costs of the three runs of a check-up, each next to the script as its user starts it: the loop, timed by itself.

The runs are (a) light: sparse digests alone; (b) with the contents of collectives, and with accesses; (c) with the
census. By the clock, a run includes what the Conductor takes of the processor beside the ranks, which on a machine with
fewer cores than processes is taken from them. The processor time of the ranks is shown beside it: other work on the
machine moves it less.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from measure import Measured, aim, ratio

from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank_agent.plan import Plan

PROGRAMS = Path(__file__).parent / "programs"
RANKS, RUNS = 2, 3
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
LEFT_OUT = "the start of the ranks, the first 6 steps, the end and the judgement"
PLAIN = "the script alone"


class Run(NamedTuple):
    """One of the three runs: its evidence, and how many times the plain loop it may take."""

    name: str
    evidence: tuple[str, ...]
    most: float


CHECKUP = (
    Run("light", (), 1.1),
    Run("contents and accesses", ("accesses", "contents"), 1.8),
    Run("census", ("census",), 2.0),
)


class Loop(NamedTuple):
    """The seconds of a loop: by the clock, of a rank's processor time, and of that before the loop."""

    clock: float
    processor: float
    start: float


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("runs"), cold=True) as made:
        yield made


def read(folder: Path) -> Loop:
    """Return what the ranks wrote: the longest time by the clock, and the means of the processor's."""
    found = [json.loads((folder / f"loop-{rank}.json").read_text()) for rank in range(RANKS)]
    clock, processor, start = zip(*found, strict=True)
    return Loop(max(clock), sum(processor) / RANKS, sum(start) / RANKS)


def alone(model: str, folder: Path) -> Loop:
    """Run the script as two processes, without us."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    folder.mkdir(parents=True)
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS), **ONE_THREAD}
    command = [sys.executable, str(PROGRAMS / "user_loop.py"), model]
    ranks = [
        subprocess.Popen(command, cwd=folder, env={**os.environ, **meet, "RANK": str(rank)}) for rank in range(RANKS)
    ]
    assert [rank.wait() for rank in ranks] == [0] * RANKS
    return read(folder)


def checked(bench: Bench, model: str, run: Run) -> Loop:
    """Run the script with the evidence of a run of the check-up."""
    plan = Plan(
        "bench", run.name.replace(" ", "-"), "", steps=0, ranks=RANKS, pin=False, digests="sparse",
        command=("user_loop.py", model), oracles=("ends",), evidence=run.evidence, deadline_s=120.0,
        environment=ONE_THREAD,
    )  # fmt: skip
    result = bench.run(Request(plan, where=PROGRAMS))
    assert not result.verdict.findings and not result.verdict.void, result.verdict
    return read(result.folder / "work")


@pytest.mark.parametrize("model", ["layers", "attention"])
def test_what_each_run_of_a_checkup_takes_next_to_the_script_alone(bench, tmp_path, model):
    taken: dict[str, list[Loop]] = {name: [] for name in (PLAIN, *(run.name for run in CHECKUP))}
    for number in range(RUNS):
        taken[PLAIN].append(alone(model, tmp_path / str(number)))
        for run in CHECKUP:
            taken[run.name].append(checked(bench, model, run))
    for field, words in (("clock", "600 steps by the clock"), ("processor", "600 steps, a rank's processor time")):
        shown = {
            name: Measured(f"{model}, {name}: {words}", [getattr(one, field) for one in loops], "cold", LEFT_OUT)
            for name, loops in taken.items()
        }
        for one in shown.values():
            one.show()
        for run in CHECKUP:
            times = ratio(shown[run.name], shown[PLAIN])
            aim(f"at most {run.most:g} times, {run.name}", times <= run.most)
    for name in (PLAIN, CHECKUP[0].name):
        before = [one.start for one in taken[name]]
        Measured(f"{model}, {name}: processor time before the loop", before, "cold", "the loop").show()
