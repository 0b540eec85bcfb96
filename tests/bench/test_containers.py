"""Costs of containers: two ranks, one all-reduce, DDP and five steps, beside `docker run` twice from a shell."""

from __future__ import annotations

import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest
from measure import Way, aim, alternate, ratio, say
from support import containers

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from breakrank_agent.plan import Plan

PROGRAMS = Path(__file__).parent / "programs"
PLAN = Plan(
    scenario="bench",
    case="reduce",
    program="reduce_ddp:main",
    steps=5,
    # A cold import on a busy machine is no hang.
    deadline_s=300,
    oracles=DEFAULT_ORACLES,
    runner="docker",
    image=containers.TORCH,
)
#: The imports of a rank, as the zygote does them.
IMPORTS = "import torch, torch.distributed, torch.nn.parallel, torch.utils.data, torch._dynamo"
#: The aims of the design, in seconds; the aim for fresh containers is beyond the import.
WARM_S, FRESH_S = 0.5, 1.5


@pytest.fixture
def image() -> Iterator[str]:
    yield containers.require(containers.TORCH)


def judged(bench: Bench) -> Callable[[], None]:
    """Return a function that runs the plan once and checks its verdict."""

    def once() -> None:
        result = bench.run(Request(PLAN, programs=PROGRAMS))
        assert result.verdict.outcome is Outcome.SURVIVED, result.verdict

    return once


def from_a_shell(*python: str) -> None:
    """Start Python twice as one would by hand: a network, and `docker run` for each rank."""
    name = f"bench-{secrets.token_hex(4)}"
    with ExitStack() as after:
        subprocess.run(["docker", "network", "create", "--internal", name], check=True, capture_output=True)
        after.callback(subprocess.run, ["docker", "network", "rm", name], check=True, capture_output=True)
        started = []
        for rank in range(2):
            facts = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": f"{name}-0", "MASTER_PORT": 29500}
            facts |= {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": 1}
            env = [word for key, value in facts.items() for word in ("-e", f"{key}={value}")]
            command = ["docker", "run", "--rm", "--name", f"{name}-{rank}", "--network", name, *env]
            command += ["-v", f"{PROGRAMS}:/programs:ro", containers.TORCH, "python3", *python]
            started.append(subprocess.Popen(command))
        # Without us, torch 2.13 now and then aborts a rank at its exit, after its work is done.
        assert {one.wait() for one in started} <= {0, 128 + signal.SIGABRT, 128 + signal.SIGSEGV}


def test_warm_and_fresh_containers_beside_docker_run_twice(tmp_path, image):
    with Bench(tmp_path / "warm") as warm, Bench(tmp_path / "cold", cold=True) as cold:
        ours, fresh, shell, imports = alternate(
            3,
            Way("Breakrank, warm containers", judged(warm), "warm", "the start of the containers; nothing else"),
            Way("Breakrank, fresh containers", judged(cold), "cold", "nothing"),
            Way("docker run twice", lambda: from_a_shell("/programs/reduce_ddp.py"), "cold", "nothing is judged"),
            Way("docker run twice, to import", lambda: from_a_shell("-c", IMPORTS), "cold", "all but the import"),
        )
    ratio(shell, ours)
    beyond = median(fresh.seconds) - median(imports.seconds)
    say(f"fresh containers beyond two containers that import: {beyond:.2f} s")
    aim(f"warm containers in less than {WARM_S:g} s", median(ours.seconds) < WARM_S)
    aim(f"fresh containers in less than {FRESH_S:g} s beyond the import", beyond < FRESH_S)
