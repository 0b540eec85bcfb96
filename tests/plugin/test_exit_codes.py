"""Exit codes: those of docs/exit-codes.md are tried here, or by the test that a line names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from breakrank.__main__ import main
from breakrank.commands import all_commands
from breakrank.commands import list as listing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/exit-codes.md").read_text()
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)` \|$", PAGE, re.MULTILINE)


def test_each_line_names_its_test():
    lines = [
        line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("| exit", "| ---", "| com"))
    ]
    assert len(NAMED) == len(lines) > 15


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED)))
def test_a_test_that_is_named_is_there(file, name):
    tree = ast.parse((ROOT / "tests" / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_command_has_a_line():
    told = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`\w+`.*?) \|", PAGE, re.MULTILINE))))
    assert told == set(all_commands())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--scenario=racy",), 0),
        (("--scenario-list",), 0),
        (("--scenario-doctor",), 0),
        (("--scenario=racy", "--scenario-dry-run"), 0),
        (("--scenario=changed::bad",), 1),
        (("--scenario=changed::void",), 1),
        (("--scenario=changed::flaky", "--scenario-repeat=2"), 1),
        (("--scenario=rcay",), 4),
        (("--scenario=racy", "--scenario-seed=x"), 4),
        (("--scenario=racy", "-k", "nothing"), 5),
    ],
)
def test_pytest(project, arguments, code):
    cases = ("bad', 'fake:silent'", "void', 'fake:void'", "flaky', 'fake:flaky'")
    project.scenario("changed", ", ".join(f"Case('{case}, SURVIVED)" for case in cases))
    assert project.pytest(*arguments).ret == code


@pytest.fixture
def run(project):
    project.pytest("--scenario=racy", "-k", "broken")
    return project.path / ".breakrank/racy-broken-0000"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("list",), 0),
        (("doctor",), 0),
        (("sweep", "--dry-run"), 0),
        (("completion", "bash"), 0),
        (("show", "RUN"), 0),
        (("judge", "RUN"), 1),
        (("judge", "UNJUDGED"), 0),
        (("runs",), 0),
        (("history",), 0),
        (("flaky",), 0),
        (("report", ".breakrank", "-o", "site"), 0),
        (("timeline", "RUN"), 0),
        (("trace", "RUN"), 0),
        (("show", "RUN", "--json"), 0),
        (("show", "/"), 4),
        (("judge", "/"), 4),
        (("list", "nosuch"), 4),
        (("why", "4194304"), 4),
        (("watch",), 4),
        (("check", "nosuch.py"), 4),
    ],
)
def test_a_command(run, arguments, code):
    if "UNJUDGED" in arguments:
        (run / "verdict.json").unlink()
    assert main([str(run) if word in ("RUN", "UNJUDGED") else word for word in arguments]) == code


@pytest.mark.parametrize("command", ["timeline", "trace"])
def test_a_command_that_makes_a_file_has_no_other_form(run, command):
    with pytest.raises(SystemExit) as refused:
        main([command, str(run), "--json"])
    assert refused.value.code == 4


@pytest.mark.parametrize("what", [KeyboardInterrupt, BrokenPipeError])
def test_an_interrupted_command(monkeypatch, what):
    def interrupted(_):
        raise what

    monkeypatch.setattr(listing, "run", interrupted)
    assert main(["list"]) == 130
