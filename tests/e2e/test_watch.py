"""`python -m breakrank watch`: the job runs unchanged, and a failure is told with its ranks, place and reason."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from breakrank.cli.watch import Wishes, _Watcher
from breakrank.history.rank_file import Chronicle
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.log import encode

#: Saves and leaves with an exit code of its own at each interrupt. A step ends with `backward`: an optimizer would
#: import torch's compiler.
INTERRUPTED = """\
import signal
import sys
import torch

stop = []

def interrupted(number, frame):
    print("interrupted")
    stop.append(number)

signal.signal(signal.SIGINT, interrupted)
weight = torch.ones(2, requires_grad=True)
weight.sum().backward()
print("trains")
while not stop:
    weight.sum().backward()
print("saved")
sys.exit(7)
"""
SCRIPTS = Path(__file__).parents[1] / "scripts" / "launched"


@pytest.fixture
def watch(tmp_path):
    """Watch two ranks of odd.py; return the finished process."""
    for path in SCRIPTS.iterdir():
        shutil.copy(path, tmp_path)
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

    def go(what, *options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        command = [sys.executable, "-m", "breakrank", "watch", *options, "./pair.sh", port, what]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)

    return go


def test_a_healthy_job_passes_through_unchanged(watch):
    done = watch("well")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} step {step}" for rank in (0, 1) for step in range(4)]
    assert "breakrank: nothing to remark" in done.stderr


def test_a_job_that_raises_keeps_its_exit_code_and_its_rank_is_blamed(watch, tmp_path):
    done = watch("raise")
    own = int((tmp_path / "ended").read_text())
    assert done.returncode == own
    # Torch may abort a rank that has raised and is on its way out.
    assert own in (1, 128 + signal.SIGABRT)
    assert "breakrank: DETECTED: rank 1 reported ValueError: the batch is empty (odd.py:17) at step 2" in done.stderr
    assert "breakrank: blame: rank 1: reported ValueError" in done.stderr
    assert "ValueError: the batch is empty\n" in done.stderr


def test_a_stalled_job_is_explained_while_it_stands_still(watch):
    done = watch("stop", "--end-stalled")
    assert done.returncode == 124
    where = "all_reduce 3 (4 × float32, odd.py:22)"
    assert f"breakrank: stalled: rank 0 waits in {where} at step 3 for rank 1, which stands still" in done.stderr
    assert "breakrank: blame: rank 1: stands still while others wait for it" in done.stderr
    assert "odd.py:" in done.stderr
    assert "HUNG" in done.stderr


def test_ranks_that_part_are_named_with_the_step(watch):
    done = watch("drift", "--drift")
    assert done.returncode == 0
    assert "breakrank: SILENT: the parameters of rank" in done.stderr and "part from" in done.stderr
    assert "at step 2" in done.stderr, done.stderr


def test_a_job_that_leaks_is_named_with_the_line(watch):
    done = watch("leak", "--leaks")
    assert done.returncode == 0
    assert "breakrank: SILENT: at each step from step 4 on, ranks 0 and 1 kept 1 tensor more" in done.stderr
    line = next(n for n, text in enumerate((SCRIPTS / "odd.py").read_text().splitlines(), 1) if "kept.append" in text)
    assert f"odd.py:{line}" in done.stderr


def test_an_interruption_reaches_the_job_once_and_its_exit_code_is_kept(tmp_path):
    (tmp_path / "train.py").write_text(INTERRUPTED)
    job = ["env", "RANK=0", "WORLD_SIZE=1", sys.executable, "-u", "train.py"]
    command = [sys.executable, "-m", "breakrank", "watch", *job]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "trains\n"
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate()
    assert process.returncode == 7
    assert printed.splitlines() == ["interrupted", "saved"]
    assert "breakrank: DETECTED: rank 0 reported exit code 7" in said


def test_what_goes_wrong_is_said_once_while_the_job_runs(tmp_path, capsys):
    """The watcher judges a history that is still being written, in which one rank is a step ahead of the other."""
    plan = Plan("watch", "train.py", "", ranks=0, steps=0)
    (tmp_path / "plan.json").write_text(plan.dumps())
    (tmp_path / "attempt-0").mkdir()
    started = [{"kind": "spawned", "t": 0.0, "attempt": 0, "rank": rank, "pid": 1} for rank in (0, 1)]
    (tmp_path / "conductor.jsonl").write_bytes(b"".join(encode(e) + b"\n" for e in started))
    watcher = _Watcher(Wishes(drift=True))
    watcher.started(0, tmp_path)

    def write(parted_from):
        for rank, steps in ((0, 6), (1, 5)):
            chronicle = Chronicle(tmp_path / "attempt-0" / f"rank-{rank}.jsonl")
            for step in range(1, steps + 1):
                where = {"n": step, "seq": "main", "step": step, "t": 0.0}
                digest = f"{step}" if step < parted_from else f"{step} of {rank}"
                chronicle.append(encode({"kind": "point", "point": "step", "visit": 1, **where}))
                chronicle.append(encode({"kind": "payload", "of": "step", "params": digest, "finite": True, **where}))
            chronicle.close()

    write(parted_from=9)
    watcher._look()
    assert capsys.readouterr().err == ""
    write(parted_from=3)
    watcher._look()
    watcher._look()
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("breakrank: at step 4: the parameters of ranks 0 and 1 part from each other at step 3")
    assert len(said) == 2 and said[1].startswith("breakrank: blame: ")


def test_a_job_without_ranks_says_so(tmp_path):
    command = [sys.executable, "-m", "breakrank", "watch", "false"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "breakrank: VOID: no rank of 'false' called home" in done.stderr
