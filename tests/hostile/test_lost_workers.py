"""If a process that runs cases is killed, its current case is lost and no other one, and the table is printed."""

from __future__ import annotations

import os

import psutil
import pytest
from support.ground import environment, pytest_in, stepping

from breakrank.host.session_name import VARIABLE

CASES = "Case('a', 'fake:sound', SURVIVED), Case('b', 'fake:killed', SURVIVED), Case('c', 'fake:sound', SURVIVED)"
HEAD = '"""Made up."""\nfrom breakrank import *\nSCENARIO = Scenario(family="sync", cases=[{cases}])\n'
FAKE = ("breakrank.plugin", "support.fake_bench")


@pytest.fixture
def made_up(tmp_path):
    """Return a project with a scenario whose second case kills the process that runs it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nscenario_paths = mine\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/lost.py").write_text(HEAD.format(cases=CASES))
    return tmp_path


def test_the_case_of_a_killed_worker_is_lost_and_the_others_are_run(made_up):
    pytest.importorskip("xdist")
    done = pytest_in(made_up, "--scenario=lost", "-n2", plugins=FAKE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout and "Traceback" not in done.stdout + done.stderr
    line = "lost::b is lost: the xdist worker gw0 died while it ran; was it killed?"
    assert line in done.stdout.replace("gw1", "gw0")
    assert "2 as recorded, 0 changed, 1 not tested" in done.stdout


def test_a_worker_that_is_not_replaced_still_leaves_a_table(made_up):
    pytest.importorskip("xdist")
    done = pytest_in(made_up, "--scenario=lost", "-n1", "--max-worker-restart=0", plugins=FAKE)
    assert done.returncode != 0 and "INTERNALERROR" not in done.stdout, done.stdout
    assert "1 as recorded, 0 changed, 1 not tested" in done.stdout


#: Kills the process that owns the run, once: each process of a session carries its pid in a variable.
KILLS = """
owner = int(os.environ["{variable}"].split("-")[0])
if step == 2 and os.environ["RANK"] == "0" and not os.path.exists({once!r}):
    open({once!r}, "w").close()
    os.kill(owner, 9)
"""


def test_nothing_is_left_of_a_killed_worker_whose_ranks_ran(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    once = str(tmp_path.parent / f"{tmp_path.name}-killed")
    (tmp_path / "train.py").write_text(stepping(KILLS.format(variable=VARIABLE, once=once), steps=200))
    options = ["--scenario=baseline,leaky_layer", "--scenario-train=train.py", "--scenario-steps=3"]
    done = pytest_in(tmp_path, *options, "-n1")
    assert "INTERNALERROR" not in done.stdout and "Traceback" not in done.stdout + done.stderr, done.stdout
    assert done.returncode == 1 and done.stdout.count("is lost: the xdist worker gw0 died while it ran") >= 1
    assert "1 fine, 0 not fine, 1 not tested" in done.stdout, done.stdout
    assert [process for process in psutil.process_iter() if runs_in(process, tmp_path)] == []


def runs_in(process, folder):
    """Return whether a process of a session of ours is in a folder, or was started from there."""
    try:
        return VARIABLE in process.environ() and str(folder) in (process.cwd(), process.environ().get("PWD"))
    except (psutil.Error, OSError):
        return False


#: Stands in for pytest-forked, which need not be installed.
FORKED = "def pytest_addoption(parser): parser.addoption('--forked', action='store_true')\n"


def test_a_process_of_its_own_for_each_case_is_refused_in_one_line(made_up):
    (made_up / "forks.py").write_text(FORKED)
    env = environment()
    env["PYTHONPATH"] += f"{os.pathsep}{made_up}"
    plugins = ("no:pytest_forked", "forks", *FAKE)
    done = pytest_in(made_up, "--scenario=lost", "--forked", plugins=plugins, env=env)
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stderr.startswith("ERROR: breakrank: --forked would end the") and done.stderr.count("\n") <= 2
    assert pytest_in(made_up, "--scenario=lost::a", plugins=plugins, env=env).returncode == 0
