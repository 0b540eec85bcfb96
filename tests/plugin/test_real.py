"""The few promises of the plugin that only a real run can show."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import time

import psutil
import pytest
from support.ground import PYTEST

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed: pip install torch"
)

#: Seconds within which something must have come to pass. A limit, not a trigger.
LIMIT_S = 300
CASE = ["--scenario=baseline::torch-hogwild-locked"]


def test_a_run_repeats_and_its_replay_comes_out_the_same(project):
    result = project.pytest_process(*CASE, "--scenario-repeat=2", plugins=["breakrank.plugin"])
    result.stdout.fnmatch_lines(["SURVIVED *baseline::torch-hogwild-locked *2/2"])
    (folder, *_) = sorted((project.path / ".breakrank").glob("baseline-*"))
    replay = project.pytest_process(f"--scenario-replay={folder}", plugins=["breakrank.plugin"])
    replay.assert_outcomes(passed=1)


def of_session(owner):
    """Return the processes that carry the session id of the owner's pid."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("BREAKRANK_SESSION", "").startswith(f"{owner}-"):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGINT, signal.SIGINT), (signal.SIGKILL,)])
def test_ending_pytest_while_ranks_run_leaves_no_process_and_shows_no_traceback(project, numbers):
    command = [*PYTEST, "-p", "breakrank.plugin", "--scenario=baseline::torch-ddp"]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert wait_for(lambda: len(of_session(process.pid)) > 2, LIMIT_S)  # the supervisor, the zygote, a rank
        for number in numbers:
            process.send_signal(number)
        text = process.communicate(timeout=LIMIT_S)[0].decode()
    assert wait_for(lambda: not of_session(process.pid), LIMIT_S)
    assert "Traceback" not in text
