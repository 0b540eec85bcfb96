"""Costs of a TensorFlow job: two workers, started in two ways, and the time until a missing worker is known."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from measure import Measured, Way, aim, alternate, ratio

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runners.process import ProcessRunner
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.trigger import at

PROGRAMS = Path(__file__).parent / "programs"
PLAN = Plan("bench", "workers", "reduce_workers:main", framework="tensorflow", oracles=DEFAULT_ORACLES)
RUNS = 5
#: The aims of the design, in seconds.
WARM_S, MISSING_S = 0.4, 1.0


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("workers")) as made:
        yield made


def by_hand() -> None:
    """Start two interpreters, as one would without us."""
    holders = [socket.create_server(("127.0.0.1", 0), reuse_port=True) for _ in range(2)]
    addresses = [f"127.0.0.1:{holder.getsockname()[1]}" for holder in holders]
    for holder in holders:
        holder.close()
    workers = [
        subprocess.Popen(
            [sys.executable, str(PROGRAMS / "reduce_workers.py")],
            env={**os.environ, "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for task in ({"type": "worker", "index": index} for index in range(2))
    ]
    for worker in workers:
        worker.wait()


def test_a_warm_job_beside_two_cold_interpreters(bench):
    def warm() -> None:
        assert bench.run(Request(PLAN, programs=PROGRAMS)).verdict.outcome is Outcome.SURVIVED

    slow, fast = alternate(
        RUNS,
        Way("two interpreters, five all-reduces", by_hand, "cold", "nothing"),
        Way("two workers, five all-reduces", warm, "warm", "the import, once"),
    )
    ratio(slow, fast)
    aim(f"less than {WARM_S:g} s", median(fast.seconds) < WARM_S)


class Servers(threading.Thread):
    """Notes the times at which the servers of the workers begin to listen, by connecting to each again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        #: By address, the time at which a server began to listen; None while no server listens there.
        self.listened: dict[str, float | None] = {}
        self.over = threading.Event()

    def run(self) -> None:
        """Try each address until `over` is set."""
        while not self.over.wait(0.002):
            for address, since in list(self.listened.items()):
                host, port = address.split(":")
                with socket.socket() as asks:
                    if since is None and asks.connect_ex((host, int(port))) == 0:
                        self.listened[address] = time.monotonic()

    def watch(self, runner: type[ProcessRunner], monkeypatch: pytest.MonkeyPatch) -> None:
        """Learn the addresses of each run when its runner gives them to the ranks."""
        addresses = runner._addresses

        def told(self_: ProcessRunner) -> list[str]:
            here = addresses(self_)
            for address in here:
                self.listened.setdefault(address, None)
            return here

        monkeypatch.setattr(runner, "_addresses", told)


def test_how_soon_a_missing_worker_is_known(bench, monkeypatch):
    gone = Strike(faults.Kill(), at(rank=1, step=0, point="start"), (1,))
    plan = replace(PLAN, case="missing", ranks=3, strikes=(gone,))
    servers = Servers()
    servers.watch(ProcessRunner, monkeypatch)
    servers.start()
    entered, listened = [], []
    for _ in range(RUNS):
        servers.listened.clear()
        result = bench.run(Request(plan, programs=PROGRAMS))
        assert result.verdict.outcome is Outcome.HUNG, result.verdict
        history = load_run(result.folder).history
        proven = float(history.seen("hung")[0]["t"])
        entries = [e["t"] for lived in history.last for e in lived.of_kind("rendezvous") if e["phase"] == "enter"]
        entered.append(proven - max(entries))
        listened.append(proven - max(filter(None, servers.listened.values())))
    servers.over.set()
    left_out = "taking stacks, and judging"
    entry = Measured("a worker is missing: from the last one's entry to the proof", entered, "warm", left_out)
    entry._replace(left_out=f"{left_out}; it includes the start of the last worker's server").show()
    aim(f"each less than {MISSING_S:g} s", max(entered) < MISSING_S)
    Measured("a worker is missing: from when the last one's server listens", listened, "warm", left_out).show()
    aim(f"each less than {MISSING_S:g} s", max(listened) < MISSING_S)
