"""Scripts with bad habits: each is run, or refused in one line, and none of its processes is left."""

from __future__ import annotations

import os
import sys

import psutil
import pytest

from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import Job, Scenario
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

#: The commands that start one rank: by our own runner, and by a launcher that is known by its variables alone.
COMMANDS = {"process": "script.py", "join": f"env RANK=0 WORLD_SIZE=1 {sys.executable} -u script.py"}

#: All of it in one script, whose training is sound.
ROUGH = """\
import os
import signal
import subprocess
import sys
import torch

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, lambda number, frame: print("interrupted"))
os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")
daemon = subprocess.Popen(["sleep", "SECONDS"], start_new_session=True)
child = os.fork()
if not child:
    # A child of the training is no rank, and its steps are not counted.
    torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1).step()
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
    sys.stdout.write("x" * 1_000_000 + "\\n")
    open("log.txt", "a").write("a step\\n")
sys.stdout.write("last words\\n")
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture(params=COMMANDS)
def launch(bench, tmp_path, request):
    """Run a script as one rank under each runner; the user's folder is as it was, and nothing runs on."""

    def go(text, *strikes):
        (tmp_path / "script.py").write_text(text)
        choices = Choices(ranks=1) if request.param == "process" else Choices()
        scenario = Scenario((), Job(steps=0, data="", deadline_s=60.0), strikes, name="rough")
        (plan,) = make_script_plans(scenario, COMMANDS[request.param].split(), choices).values()
        result = bench.run(Request(plan, where=tmp_path))
        assert [path.name for path in tmp_path.iterdir()] == ["script.py"], "the user's folder was touched"
        assert (tmp_path / "script.py").read_text() == text
        return result, load_run(result.folder)

    return go


def printed(result):
    (out,) = [p for name in ("rank-0.out", "launcher.out") for p in result.folder.rglob(name) if p.stat().st_size]
    return out.read_bytes()


def test_whatever_a_script_does_beside_its_training_it_is_judged_by_that(launch):
    # The same test of another launcher may run meanwhile: the daemon is known by a number of its own.
    seconds = str(86400 + os.getpid())
    result, saved = launch(ROUGH.replace("SECONDS", seconds))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    (lived,) = saved.history.last
    assert (lived.last_step, lived.status, lived.end["how"]) == (3, 0, "os._exit")
    # The file that the script wrote in another folder is kept with the run.
    assert (result.folder / "work" / "elsewhere" / "log.txt").read_text() == "a step\n" * 3
    assert printed(result).endswith(b"last words\n") and len(printed(result)) < 1_100_000
    left = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]
    assert left == [], "the daemon lives on"


def test_a_script_that_reads_its_input_finds_none(launch):
    text = "import torch\nbatches = int(input('how many batches? '))\n"
    result, _ = launch(text, faults.Kill() @ at(rank=0, step=2))
    assert result.verdict.outcome is Outcome.VOID
    assert result.verdict.void[0].startswith("the control failed: rank 0 raised EOFError: EOF when reading a line")


def test_a_script_that_is_over_at_once_says_nothing(launch):
    result, _ = launch("import sys, torch\nsys.exit(0)\n")
    assert result.verdict.outcome is Outcome.VOID
    assert result.verdict.sentence().startswith("nothing was seen: between its start and its end no rank")
    assert "\n" not in result.verdict.sentence()


def test_a_script_that_needs_another_torch_says_so_itself(launch):
    result, _ = launch("import torch\nassert torch.__version__ > '3', 'torch 3 is needed'\n")
    assert result.verdict.outcome is Outcome.DETECTED
    said = "reported AssertionError: torch 3 is needed (script.py:2) before the first step"
    assert result.verdict.sentence().endswith(said)
