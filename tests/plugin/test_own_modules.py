"""Our modules are imported from their bytecode: pytest, which would rewrite them at each start, does not find them."""

from __future__ import annotations

import sys

PROBE = """
import sys
import warnings
import pytest

with warnings.catch_warnings():
    # Those that the plugin itself is made of are imported already, which gives a warning.
    warnings.simplefilter("ignore")
    # As for each package of an installed distribution that has a plugin.
    pytest.register_assert_rewrite("breakrank", "breakrank_agent", "beside")

import beside

def pytest_unconfigure(config):
    for name in ("breakrank.runs.bench", "breakrank_agent.protocol.log", "beside"):
        print(name, type(sys.modules[name].__spec__.loader).__name__)
"""


def test_pytest_rewrites_the_modules_of_others_and_not_ours(project):
    project.file("beside.py", "")
    project.file("conftest.py", PROBE)
    result = project.pytest_process("--scenario=racy", "-s", plugins=["breakrank.plugin"])
    result.stdout.fnmatch_lines(
        [
            "breakrank.runs.bench SourceFileLoader",
            "breakrank_agent.protocol.log SourceFileLoader",
            "beside AssertionRewritingHook",
        ]
    )


def test_the_finders_are_as_they_were_after_a_session(project):
    before = list(sys.meta_path)
    project.file("conftest.py", "import sys\ndef pytest_configure(config): print(sys.meta_path[0])")
    result = project.pytest("--scenario=racy", "--collect-only", "-s")
    result.stdout.fnmatch_lines(["*OwnModules*"])
    assert sys.meta_path == before
