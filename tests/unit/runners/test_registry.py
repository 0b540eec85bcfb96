"""The folder of runners is the registry: a runner in it is found by name, asked, and offered."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from breakrank import runners
from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder
from breakrank.runners.base import Launcher
from breakrank.runners.join import JoinRunner
from breakrank.runners.process import ProcessRunner
from breakrank.runners.sandbox import SandboxRunner
from breakrank.runs.saved_run import load_plan
from breakrank_agent.plan import Plan

OWN = """
from breakrank.runners.process import Process


class Own(Process):
    name = "own"
    needs = ("a machine of its own",)


RUNNER = Own()
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Lay a runner of somebody else into the folder of runners."""
    (tmp_path / "of_somebody.py").write_text(OWN)
    monkeypatch.setattr(runners, "__path__", [*runners.__path__, str(tmp_path)])
    runners.all_runners.cache_clear()
    yield
    sys.modules.pop("breakrank.runners.of_somebody")
    runners.all_runners.cache_clear()


def test_each_runner_is_known_by_its_own_name_the_plain_one_first():
    assert list(runners.all_runners()) == ["process", "hosts", "slurm", "sandbox", "docker", "join"]
    assert all(runners.find_runner(name).name == name for name in runners.all_runners())
    assert next(iter(runners.all_runners())) == runners.PLAIN


def test_a_file_in_the_folder_is_all_that_it_takes(own):
    assert runners.find_runner("own").needs == ("a machine of its own",)
    assert "own" in runners.offered_runners()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("dokcer", "did you mean docker?"), ("tin", "runners are process, hosts, slurm, sandbox, docker, join")],
)
def test_an_unknown_runner_is_refused_with_the_nearest_name(name, hint):
    with pytest.raises(BreakrankError) as error:
        runners.find_runner(name)
    assert str(error.value) == f"there is no runner '{name}'; {hint}"


def test_a_saved_plan_may_name_it_and_another_one_is_refused(own, tmp_path):
    plan = Plan("test", "case", "some:main", framework="torch", oracles=("ends",), runner="own")
    (tmp_path / "plan.json").write_text(plan.dumps())
    assert load_plan(Folder(tmp_path)).runner == "own"
    (tmp_path / "plan.json").write_text(replace(plan, runner="tin").dumps())
    with pytest.raises(
        BreakrankError, match="there is no runner 'tin'; use one of process, hosts, own, slurm, sandbox, docker, join"
    ):
        load_plan(Folder(tmp_path))


def test_a_runner_is_a_launcher_if_its_ranks_arrive_by_themselves():
    assert issubclass(JoinRunner, Launcher)
    assert not issubclass(ProcessRunner, Launcher) and not issubclass(SandboxRunner, Launcher)


def test_without_dockers_package_its_runner_is_known_and_says_what_to_install():
    code = (
        "import sys; sys.modules['docker'] = None\n"
        "from breakrank.errors import BreakrankError\n"
        "from breakrank.runners import find_runner\n"
        "try: find_runner('docker').lacks_framework('torch', 'some-image')\n"
        "except BreakrankError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "the runner docker needs a package that is not installed here (docker): pip install 'pytest-breakrank[docker]'"
    )
