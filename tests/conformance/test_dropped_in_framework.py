"""A third framework is a profile and a folder of hooks: with these two files every part knows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROFILE = '''
"""The profile of a framework that a stranger added."""

from breakrank_agent.protocol.frameworks import Framework, KnownWait

FRAMEWORK = Framework(
    name="madeup",
    cure="pip install madeup-cpu",
    modules=("madeup",),
    warm=("madeup",),
    environment={"MADEUP_THREADS": "1"},
    variables=("MADEUP_PEERS",),
    cluster=lambda rank, addresses, asked: {"MADEUP_PEERS": ",".join(addresses)},
    oracles=("placement",),
    spoken={"sum_": "sum"},
    backends=("grpc",),
    packages=("madeup",),
    waits=(KnownWait("madeup/__init__.py", ("meet",), "meeting", "madeup's meeting"),),
)
'''

HOOK = '''
"""The steps of a framework that a stranger added."""

import sys

WAITS_FOR = "madeup"


def install(agent):
    sys.modules["madeup"].after_step.append(lambda: agent.close_step("madeup.step"))
'''

#: The framework itself, which records the process that imports it.
MADEUP = """
import os

IMPORTED_IN = os.getpid()
after_step = []


def step():
    for follow in after_step:
        follow()


def meet():
    pass
"""

PROGRAM = '''
"""Steps of the framework that a stranger added."""

import os


def alone():
    import madeup

    assert madeup.IMPORTED_IN != os.getpid(), "no zygote has imported it"
    assert os.environ["MADEUP_THREADS"] == "1", "it is not pinned"
    assert len(os.environ["MADEUP_PEERS"].split(",")) == 2, "the ranks have no addresses"
    for _ in range(int(os.environ["BREAKRANK_STEPS"])):
        madeup.step()
'''

SCENARIO = '''
"""The framework that a stranger added is used."""

from breakrank import SURVIVED, Case, Job, Scenario

SCENARIO = Scenario(
    job=Job(steps=4, data=""),
    oracles=["ends", "progress"],
    cases=[Case("madeup-alone", "drilled:alone", framework="madeup", expect=SURVIVED)],
)
'''

READERS = """
from breakrank.analysis.wait_for import SPOKEN
from breakrank.host.blocked import BACKENDS, grpc
from breakrank.host.stacks import Frame, Wait, fold
from breakrank.plan.scenario import DEFAULT_ORACLES, Case, Scenario
from breakrank.plan.script import framework_of
from breakrank.verdict import SURVIVED
from breakrank_agent.plan import Plan
from pathlib import Path

assert SPOKEN["sum_"] == "sum"
assert BACKENDS.count(grpc.state) == 2
frames = [Frame("main", "/job/train.py", 3), Frame("meet", "/x/site-packages/madeup/__init__.py", 9)]
assert fold(frames).wait == Wait("meeting", "madeup's meeting") and fold(frames).frames == (frames[0],)
case = Case("case", "drilled:alone", SURVIVED, framework="madeup")
assert set(Scenario([case]).oracles_of(case)) - set(DEFAULT_ORACLES) == {"placement"}
Path("train.py").write_text("import madeup")
assert framework_of(["train.py"], Path()) == "madeup"
assert Plan.loads(Plan("some", "case", "drilled:alone", framework="madeup").dumps()).framework == "madeup"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a copy of what is installed, and in it the framework's profile, hooks, program and scenario."""
    site = tmp_path_factory.mktemp("dropped") / "site"
    for source, target in {
        "harness/breakrank": "breakrank",
        "harness/breakrank_agent": "breakrank_agent",
        "scenarios": "breakrank/scenarios",
        "fixtures": "breakrank/fixtures",
    }.items():
        # With the bytecode, if there is any: several interpreters import it.
        shutil.copytree(ROOT / source, site / target)
    for path, text in {
        "breakrank_agent/protocol/frameworks/madeup.py": PROFILE,
        "breakrank_agent/hooks/madeup/__init__.py": '"""Hooks into madeup."""\n',
        "breakrank_agent/hooks/madeup/training.py": HOOK,
        "breakrank/fixtures/programs/drilled.py": PROGRAM,
        "breakrank/scenarios/madeup_steps.py": SCENARIO,
        "../madeup/madeup/__init__.py": MADEUP,
    }.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text.lstrip())
    return site


def call(site: Path, arguments: list[str], folder: Path, installed: bool = True) -> subprocess.CompletedProcess[str]:
    paths = [site, site.parent / "madeup"] if installed else [site]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )


def test_its_ranks_come_from_a_zygote_pinned_with_addresses_and_its_hooks_see_the_steps(site, tmp_path):
    done = call(
        site, ["-m", "pytest", "-p", "no:cacheprovider", "--scenario=all", "--scenario-framework=madeup"], tmp_path
    )
    assert done.returncode == 0 and "1 as recorded" in done.stdout, done.stdout[-4000:] + done.stderr[-2000:]


def test_where_it_is_missing_its_own_cure_is_named(site, tmp_path):
    asked = "from breakrank.doctor import missing_framework as missing; print(missing('madeup'))"
    assert "pip install madeup-cpu" in call(site, ["-c", asked], tmp_path, installed=False).stdout
    assert call(site, ["-c", asked], tmp_path).stdout == "\n"


def test_the_option_names_it(site, tmp_path):
    done = call(site, ["-m", "pytest", "--scenario=all", "--scenario-framework=other"], tmp_path)
    assert "--scenario-framework is 'other'; use torch or madeup or tensorflow" in done.stdout + done.stderr


def test_every_reader_asks_its_profile(site, tmp_path):
    done = call(site, ["-c", READERS], tmp_path)
    assert done.returncode == 0, done.stderr
