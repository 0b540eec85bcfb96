"""The programs, run for real by two ranks without an agent: the sound ones cope, the broken ones do what they claim.

Most ranks are forked from a server that has imported torch: each is a fresh process, and starts fast.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import breakrank_agent
from breakrank.fixtures import data

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the programs need torch")

RANKS, STEPS = 2, 8
#: Seconds within which ranks must have ended. A limit, not a trigger: on a busy machine a start alone takes tens.
LIMIT_S = 300
PATH = [str(Path(data.__file__).parent / "programs"), str(Path(breakrank_agent.__file__).parents[1])]
SERVER = multiprocessing.get_context("forkserver")
# The main module of the test run imports pytest, and every forked process imports the main module again.
SERVER.set_forkserver_preload(["torch", "torch._dynamo", "pytest", data.__name__])


@dataclass(frozen=True)
class Attempt:
    """The results of an attempt: exit codes, logged values by rank; `final` is the last checkpoint as text, or ""."""

    folder: Path
    codes: list[int | None]
    said: list[list[dict[str, Any]]]
    final: str

    def losses(self, rank: int) -> list[float]:
        """Return the losses that a rank logged, in order."""
        return [values["loss"] for values in self.said[rank] if "loss" in values]

    def updates(self) -> list[int]:
        """Return the number of updates that each rank named as the result."""
        return [values["updates"] for said in self.said for values in said if "updates" in values]

    def fell_below_its_goal(self) -> bool:
        """Return whether the last loss of every rank is below the goal, and the highest of the first ones was not.

        A rank that shares its weights may find them trained by the others when it begins.
        """
        goal = max(said[-1]["goal"] for said in self.said)
        return max(self.losses(r)[-1] for r in range(RANKS)) < goal < max(self.losses(r)[0] for r in range(RANKS))


def run(program: str, folder: Path, killed_after: int = 0) -> Attempt:
    """Run a program in `folder`; rank 1 is killed when it has logged its loss `killed_after` times, if not 0."""
    with rendezvous() as environment:
        ranks = [
            SERVER.Process(target=be_a_rank, args=(program, folder, {**environment, **name(rank)}, killed_after * rank))
            for rank in range(RANKS)
        ]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(LIMIT_S)
        codes = [rank.exitcode for rank in ranks]
        for rank in ranks:
            rank.kill()
    said = [[json.loads(line) for line in (folder / f"said-{r}").read_text().splitlines()] for r in range(RANKS)]
    final = folder / "final"
    return Attempt(folder, codes, said, final.read_text() if final.exists() else "")


@contextmanager
def rendezvous() -> Iterator[dict[str, str]]:
    """Yield the environment of a group, with a port that no other process is given.

    A socket that is bound but does not listen keeps the port from being handed out again, and lets rank 0's server,
    which sets SO_REUSEADDR as well, have it.
    """
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(placeholder.getsockname()[1]),
            "WORLD_SIZE": str(RANKS),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "BREAKRANK_STEPS": str(STEPS),
        }


def name(rank: int) -> dict[str, str]:
    """Return the variables that tell a rank its number."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "TORCHELASTIC_RESTART_COUNT": "0"}


def be_a_rank(program: str, folder: Path, environment: dict[str, str], killed_after: int) -> None:
    """Run a program in this process, which is a rank's own, and write down its logged values and its end."""
    import torch

    torch.set_num_threads(1)
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = PATH
    rank = environment["RANK"]
    with open(f"said-{rank}", "w", buffering=1) as said, open(f"errors-{rank}", "w") as errors:
        os.dup2(errors.fileno(), 2)
        losses = 0

        def note(*_: str, **values: Any) -> None:
            nonlocal losses
            said.write(json.dumps(values) + "\n")
            losses += "loss" in values
            if killed_after and losses == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)

        breakrank_agent.tell = breakrank_agent.state = note
        module, function = program.split(":")
        getattr(importlib.import_module(module), function)()
    if rank == "0" and os.path.exists("checkpoint.pt"):
        # Every float32 has a decimal of its own: equal texts are equal bits.
        Path("final").write_text(
            json.dumps(torch.load("checkpoint.pt", weights_only=True), default=torch.Tensor.tolist)
        )


def lay(folder: Path) -> Path:
    """Lay the data into a folder, and return it."""
    data.lay("digits", folder, 0, RANKS)
    return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """Return a run of DDP that nothing happens to."""
    return run("digits_ddp:plain", lay(tmp_path_factory.mktemp("undisturbed")))


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """Return a first attempt of DDP, of which rank 1 was killed at the end of step 3."""
    return run("digits_ddp:resuming", lay(tmp_path_factory.mktemp("interrupted")), killed_after=3)


def again(program: str, interrupted: Attempt, folder: Path) -> Attempt:
    """Start a program anew in a copy of the folder of an interrupted attempt."""
    return run(program, shutil.copytree(interrupted.folder, folder / "again"))


def test_undisturbed_ddp_falls_below_its_goal(undisturbed: Attempt) -> None:
    assert undisturbed.codes == [0, 0]
    assert undisturbed.fell_below_its_goal()


def test_each_rank_trains_on_samples_of_its_own(undisturbed: Attempt) -> None:
    assert all(one != other for one, other in zip(undisturbed.losses(0), undisturbed.losses(1), strict=True))


def test_a_lost_peer_is_an_error_where_nothing_handles_it(interrupted: Attempt) -> None:
    assert interrupted.codes == [1, -signal.SIGKILL]
    assert "RuntimeError" in (interrupted.folder / "errors-0").read_text()
    assert len(interrupted.losses(0)) == 3


def test_resuming_ends_as_if_nothing_had_happened(undisturbed: Attempt, interrupted: Attempt, tmp_path: Path) -> None:
    attempt = again("digits_ddp:resuming", interrupted, tmp_path)
    assert attempt.codes == [0, 0]
    assert attempt.final == undisturbed.final
    assert [attempt.losses(r) for r in range(RANKS)] == [undisturbed.losses(r)[3:] for r in range(RANKS)]


def test_forgetful_ends_well_with_another_result(undisturbed: Attempt, interrupted: Attempt, tmp_path: Path) -> None:
    attempt = again("digits_ddp:forgetful", interrupted, tmp_path)
    assert attempt.codes == [0, 0]
    assert json.loads(attempt.final)["model"] != json.loads(undisturbed.final)["model"]


def test_going_on_alone_ends_well_with_another_result(undisturbed: Attempt, tmp_path: Path) -> None:
    attempt = run("digits_ddp:alone", lay(tmp_path), killed_after=3)
    assert attempt.codes == [0, -signal.SIGKILL]
    assert len(attempt.losses(0)) == len(undisturbed.losses(0))
    assert json.loads(attempt.final)["model"] != json.loads(undisturbed.final)["model"]


def test_locked_ranks_lose_no_update_and_fall_below_their_goal(tmp_path: Path) -> None:
    attempt = run("hogwild:locked", lay(tmp_path))
    assert attempt.codes == [0, 0]
    assert attempt.updates() == [RANKS * STEPS] * RANKS
    assert attempt.fell_below_its_goal()


def test_unlocked_ranks_end_well_whatever_they_lose(tmp_path: Path) -> None:
    attempt = run("hogwild:unlocked", lay(tmp_path))
    assert attempt.codes == [0, 0]
    assert all(0 < updates <= RANKS * STEPS for updates in attempt.updates())


def test_a_program_runs_as_a_launcher_starts_it(tmp_path: Path) -> None:
    lay(tmp_path)
    with rendezvous() as environment:
        common = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(PATH)}
        command = [sys.executable, "-c", "import hogwild; hogwild.locked()"]
        ranks = [subprocess.Popen(command, env={**common, **name(rank)}, cwd=tmp_path) for rank in range(RANKS)]
        assert [rank.wait(LIMIT_S) for rank in ranks] == [0, 0]
    assert struct.unpack("<f", (tmp_path / "weights.bin").read_bytes()[-4:]) == (RANKS * STEPS,)
