"""A project of a user, with scenarios of its own and a bench that makes runs up."""

from __future__ import annotations

import importlib
import os
import pkgutil
import textwrap
from pathlib import Path

import pytest
from support.ground import LEAN, PYTEST
from support.screens import written_on

from breakrank import analysis, judge, memory, plan, plugin, report, runs, timeline

HERE = Path(__file__).parent
HARNESS = HERE.parents[1] / "harness"

#: A pytest inside of pytest forgets afterwards the modules that it has imported. Those that are here before it stay.
#: Of docker a part would stay, and not fit what is imported again.
importlib.import_module("docker")
for _room in (analysis, judge, memory, plan, plugin, report, runs, timeline):
    for _module in pkgutil.iter_modules(_room.__path__, f"{_room.__name__}."):
        importlib.import_module(_module.name)

HEAD = "from breakrank import *\n"


class Project:
    """A user's project under pytester."""

    def __init__(self, pytester):
        self.pytester = pytester
        self.path = pytester.path
        pytester.makeini("[pytest]\nscenario_paths = mine\n")
        (self.path / "mine").mkdir()

    def scenario(self, name, cases, more="family='sync'", doc="Made up."):
        text = f'"""{doc}"""\n{HEAD}SCENARIO = Scenario({more}, cases=[{cases}])\n'
        (self.path / "mine" / f"{name}.py").write_text(text)

    def file(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def pytest(self, *arguments):
        """Run pytest in this process, with the plugin and the fake bench."""
        chosen = ("-p", "breakrank.plugin", "-p", "support.fake_bench")
        return self.pytester.runpytest_inprocess(*LEAN, *chosen, *arguments)

    def pytest_process(self, *arguments, plugins=("breakrank.plugin", "support.fake_bench"), **options):
        """Run pytest in a process of its own."""
        chosen = [word for plugin in plugins for word in ("-p", plugin)]
        command = [*PYTEST, *chosen, *arguments]
        return self.pytester.run(*command, **options)

    def on_a_terminal(self, columns, *arguments, **options):
        """Run pytest on a terminal of so many columns, and return all that it wrote there."""
        command = [*PYTEST, "-p", "breakrank.plugin", "-p", "support.fake_bench", *arguments]
        return written_on(columns, command, self.path, **options)


@pytest.fixture
def project(pytester, monkeypatch):
    search = [str(HARNESS), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(search))
    monkeypatch.syspath_prepend(str(HERE.parent))
    # On CI pytest writes the summary's messages whole, and so some lines twice.
    for variable in ("PYTEST_ADDOPTS", "GITHUB_ACTIONS", "CI", "BUILD_NUMBER"):
        monkeypatch.delenv(variable, raising=False)
    made = Project(pytester)
    broken = "Case('broken', 'fake:silent', silent(oracle='race', cause='lost update'))"
    made.scenario("racy", f"{broken}, Case('sound', 'fake:sound', SURVIVED)")
    return made
