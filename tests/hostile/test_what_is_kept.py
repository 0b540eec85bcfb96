"""A run directory is private to its owner, and holds no word of a command line or an environment but the plan's."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support import containers
from support.ground import environment, pytest_in, script, stepping
from support.plans import plan_of

from breakrank.doctor import missing
from breakrank.errors import BreakrankError
from breakrank.files.private import make_runs, seal
from breakrank.host.stacks import print_stacks
from breakrank.runners.process import stage_agent
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.plan import Plan

#: A word in the environment of every rank, and in the command line of each process that a rank starts.
SECRET = "s3cr3t-w0rd-that-nobody-may-keep"
#: The third step of a rank, in three ways, and the start of its child, which has the secret among its words.
ENDS = "pass"
HANGS = "if step == 2: lock = threading.Lock(); lock.acquire(); lock.acquire()"
DIES = "if step == 2: os.kill(os.getpid(), signal.SIGSEGV)"
WORDS = "[sys.executable, '-c', 'import time; time.sleep(60)', os.environ['API_TOKEN']]"
CHILD = f"import signal, subprocess, threading\nsubprocess.Popen({WORDS})"
#: Only a limit, because a busy machine takes its time to end a process.
DEADLINE_S = 30.0
WAYS = {ENDS: Outcome.SURVIVED, HANGS: Outcome.HUNG, DIES: Outcome.CRASHED}


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("API_TOKEN", SECRET)


@pytest.fixture
def runs(tmp_path):
    """Yield a bench of the test's own: its whole folder is searched. Its zygotes would have the secret, too."""
    with Bench(tmp_path / "runs") as bench:
        yield bench


def holding(folder, word=SECRET):
    """Return the files below a folder in which, or in whose name, a word is."""
    found = [path for path in folder.rglob("*") if word in path.name]
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and word.encode() in path.read_bytes():
            found.append(path)
    return found


def conducted(bench, tmp_path, way, **values):
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.py").write_text(f"import os, sys\n{CHILD}\n{stepping(way)}")
    oracles = ("ends", "progress", "crash")
    plan = replace(
        plan_of("", deadline_s=DEADLINE_S), command=("train.py",), pin=False, steps=0, ranks=1, oracles=oracles
    )
    return bench.run(Request(replace(plan, **values), where=tmp_path / "job"))


@pytest.mark.parametrize(
    ("runner", "way"), [("process", ENDS), ("process", HANGS), ("process", DIES), ("sandbox", HANGS)]
)
def test_nothing_secret_is_kept_of_ranks(runs, tmp_path, runner, way):
    lack = missing(faults.CutLink.needs) if runner == "sandbox" else ""
    if lack:
        pytest.skip(lack)
    result = conducted(runs, tmp_path, way, runner=runner)
    assert result.verdict.outcome is WAYS[way], result.verdict.to_json()
    assert holding(runs.runs) == []
    assert_private(result.folder)


def test_nothing_secret_is_kept_of_containers(runs, tmp_path):
    image = containers.require(containers.BARE["3.9"])
    # The environment of this test is not handed on to containers: the script sets the secret by itself.
    own = f"os.environ['API_TOKEN'] = {SECRET[::-1]!r}[::-1]"
    text = f"import os, sys\nimport breakrank_agent\nassert 'API_TOKEN' not in os.environ\n{own}\n{CHILD}\n"
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.py").write_text(f"{text}for _ in range(3): breakrank_agent.step()\n")
    plan = Plan("test", "train.py", "", framework="none", command=("train.py",), pin=False, steps=0, oracles=("ends",))
    result = runs.run(Request(replace(plan, runner="docker", image=image, ranks=2), where=tmp_path / "job"))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    assert holding(runs.runs) == []
    assert_private(result.folder)


#: Starts ranks by itself, each with the secret in its command line, and rank 1 in a way that no agent can enter.
LAUNCHER = """\
#!/bin/sh
export WORLD_SIZE=2
RANK=0 {python} train.py --token "$API_TOKEN" &
RANK=1 {python} {option} train.py --token "$API_TOKEN"
wait
"""


@pytest.mark.parametrize(("option", "way"), [("-I", ENDS), ("-B", HANGS)], ids=["one is closed", "both hang"])
def test_nothing_secret_is_kept_of_a_launchers_ranks(runs, tmp_path, option, way):
    (tmp_path / "job").mkdir()
    (tmp_path / "job/launch.sh").write_text(LAUNCHER.format(python=sys.executable, option=option))
    (tmp_path / "job/launch.sh").chmod(0o755)
    (tmp_path / "job/train.py").write_text(script(f"import threading\n{way}"))
    plan = plan_of("", deadline_s=DEADLINE_S, steps=0, ranks=0, runner="join", oracles=("ends", "progress"))
    result = runs.run(Request(replace(plan, command=("./launch.sh",), pin=False), where=tmp_path / "job"))
    if way == HANGS:
        assert result.verdict.outcome is Outcome.HUNG, result.verdict.to_json()
        assert "acquire" in (result.folder / "conductor.jsonl").read_text()
    else:
        assert "train.py' runs with -I, which keeps the agent out" in " ".join(result.verdict.void)
    assert holding(runs.runs) == []


def test_stacks_are_told_without_the_command_line(tmp_path):
    code = "import sys, time\nprint('in', flush=True)\ntime.sleep(600)"
    words = [sys.executable, "-c", code, f"{SECRET}\nPython v1\n{SECRET}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"in\n"
            text = print_stacks([process.pid], native=False)[process.pid]
        finally:
            process.kill()
    assert text.startswith("Python v3") and "Thread" in text and SECRET not in text


# --- permissions


def assert_private(folder):
    for path in [folder, *folder.rglob("*")]:
        if "work" not in path.relative_to(folder).parts:
            mode = stat.S_IMODE(path.lstat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), f"{path} is {mode:o}"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_whatever_the_umask_others_are_kept_out_and_ranks_have_it_as_it_is(tmp_path, umask):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tells = "mask = os.umask(0); os.umask(mask); print(f'{mask:o}')"
    (tmp_path / "train.py").write_text(stepping(tells, steps=1))
    done = pytest_in(
        tmp_path,
        "--scenario=baseline",
        "--scenario-train=train.py",
        "-p",
        "no:cacheprovider",
        wrapped=["sh", "-c", f'umask {umask:o}; exec "$0" "$@"'],
    )
    assert "1 fine, 0 not fine, 0 not tested" in done.stdout, done.stdout + done.stderr
    runs = tmp_path / ".breakrank"
    assert stat.S_IMODE(runs.stat().st_mode) == 0o700
    (folder,) = runs.glob("baseline-*")
    assert_private(folder)
    assert (folder / "attempt-0/rank-1.out").read_text() == f"{umask:o}\n"
    assert stat.S_IMODE((runs / "slots").stat().st_mode) == 0o700
    assert (runs / ".gitignore").read_text() == "*\n"


def test_a_folder_of_the_users_keeps_its_rights_and_what_is_made_in_it_is_closed(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nscenario_runs = mine\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o755)
    (tmp_path / "mine/notes").touch(0o644)
    done = pytest_in(tmp_path, "--scenario=killed_rank::torch-plain")
    assert "1 as recorded" in done.stdout, done.stdout
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "mine/notes").stat().st_mode) == 0o644
    for pattern in ("killed_rank-*", "controls", "controls/*", "slots"):
        for folder in (tmp_path / "mine").glob(pattern):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    for control in (tmp_path / "mine/controls").iterdir():
        assert_private(control)


def test_another_user_reads_nothing(tmp_path):
    """The reader is the user nobody, who may enter all folders above."""
    if os.geteuid() != 0:
        pytest.skip("only root may become somebody else; run the tests as root")
    make_runs(tmp_path / "runs")
    (tmp_path / "runs/plan.json").write_text(SECRET)
    tmp_path.chmod(0o755)
    tries = "import sys; open(sys.argv[1]).read()"
    command = ["setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/env", "python3", "-c", tries]
    done = subprocess.run([*command, str(tmp_path / "runs/plan.json")], capture_output=True, text=True, cwd="/")
    assert done.returncode != 0 and SECRET not in done.stdout


def test_what_is_sealed_is_what_is_there_and_nothing_that_it_points_to(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "run"
    (folder / "work").mkdir(parents=True)
    for path in (outside, folder / "work/own", folder / "plan.json"):
        path.touch()
        path.chmod(0o644)
    (folder / "rank-0.out").symlink_to(outside)
    (folder / "linked").hardlink_to(outside)
    (folder / "attempt-0").symlink_to(tmp_path)
    os.mkfifo(folder / "words")
    seal(folder)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
    assert stat.S_IMODE((folder / "work/own").stat().st_mode) == 0o644
    assert stat.S_IMODE((folder / "plan.json").stat().st_mode) == 0o600


def test_an_agent_that_somebody_else_has_laid_is_not_run(tmp_path):
    staged = stage_agent(tmp_path)
    assert stage_agent(tmp_path) == staged
    staged.chmod(0o777)
    with pytest.raises(BreakrankError, match="was made by somebody else"):
        stage_agent(tmp_path)
    staged.chmod(0o755)
    staged.rename(tmp_path / "moved")
    staged.symlink_to(tmp_path / "moved")
    with pytest.raises(BreakrankError, match="was made by somebody else"):
        stage_agent(tmp_path)


def test_the_secret_would_be_found(tmp_path):
    """The search of these tests finds the secret if it is there."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/rank-0.out").write_text(f"it is {SECRET}\n")
    assert holding(tmp_path) == [tmp_path / "a/rank-0.out"]
    shown = subprocess.run(["env"], env=environment(), capture_output=True, text=True).stdout
    assert SECRET in shown and Path("/proc/self/environ").exists()
