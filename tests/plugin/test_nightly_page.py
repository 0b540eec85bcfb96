"""The workflows of docs/nightly.md: their shell lines are run, as the page has them, for a project of four cases."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.ground import LEAN, environment
from support.nights import lay, night

from breakrank.memory.reading import read

ROOT = Path(__file__).parents[2]
#: `breakrank` as it is installed, but for the catalogue: four cases stand for it, and the runs are made up.
OURS = """#!/bin/sh
case "$*" in *--resume*) ;; nightly*) set -- "$@" --scenario=small ;; esac
exec {python} -m breakrank "$@"
"""


def block(title):
    """Return the block of code below a title of the page."""
    found = re.search(rf"^## {title}\n+```\w*\n(.*?)^```", (ROOT / "docs" / "nightly.md").read_text(), re.S | re.M)
    assert found is not None
    return found[1]


def lines(title):
    """Return the shell lines of a workflow, and the paths that it hands on or keeps."""
    text = block(title)
    typed = re.findall(r"^ +(?:- )?run: (.+)$", text, re.M)
    script = re.search(r"^  script:\n((?:    - .+\n)+)", text, re.M)
    typed += re.findall(r"^    - (.+)$", script[1], re.M) if script else []
    paths = re.findall(r"\bpath: ([^\s,}]+)", text)
    paths += [path for listed in re.findall(r"\bpaths: \[(.+?)\]", text) for path in listed.split(", ")]
    return typed, paths


@pytest.fixture
def shell(tmp_path):
    """Return what runs a line in a folder, as a runner of workflows does."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "breakrank").write_text(OURS.format(python=shlex.quote(sys.executable)))
    (tools / "breakrank").chmod(0o755)
    addopts = " ".join(["-p", "support.fake_bench", "-p", "support.killed_night", *LEAN])
    around = environment(PYTEST_ADDOPTS=addopts, GITHUB_STEP_SUMMARY=str(tmp_path / "summary"))
    around["PATH"] = f"{tools}:{around['PATH']}"

    def run(line, folder):
        command = ["bash", "--noprofile", "-eo", "pipefail", "-c", line]
        return subprocess.run(
            command, cwd=folder, env=around, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL
        )

    return run


@pytest.mark.parametrize("title", ["GitHub", "GitLab"])
def test_the_lines_of_a_workflow_run_and_leave_what_it_keeps(title, shell, tmp_path):
    typed, paths = lines(title)
    assert len(typed) >= 2
    (kept,) = {path for path in paths if path.endswith(".sqlite")}
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        lay(folder)
        if name == "second":
            # Each night begins in a fresh checkout, with what the cache kept.
            (folder / ".breakrank").mkdir()
            (folder / kept).write_bytes((tmp_path / "first" / kept).read_bytes())
        for line in typed:
            if not line.startswith("pip "):
                done = shell(line, folder)
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert all((folder / path).exists() for path in paths)
    assert [(one.kind, one.exit) for one in read(tmp_path / "second" / ".breakrank").sessions] == [("nightly", 0)] * 2
    assert (tmp_path / "second" / "night" / "index.html").is_file()
    if title == "GitHub":
        assert "night 2" in (tmp_path / "summary").read_text()


@pytest.mark.parametrize("title", ["GitHub", "GitLab"])
def test_a_workflow_installs_what_there_is(title):
    (line,) = [line for line in lines(title)[0] if line.startswith("pip ")]
    *_, wanted = shlex.split(line)
    name, extras = re.fullmatch(r"([\w-]+)\[([\w,]+)\]", wanted).groups()
    project = (ROOT / "pyproject.toml").read_text()
    offered = re.search(r"^\[project.optional-dependencies\]\n((?:.+\n)+)", project, re.M)
    known = set(re.findall(r"^(\w+) = ", offered[1], re.M))
    assert f'name = "{name}"' in project and set(extras.split(",")) <= known


def test_the_line_of_the_crontab_begins_a_night_and_goes_on_with_one_that_was_cut_short(shell, tmp_path):
    place = "/srv/training"
    fields, _, line = block("crontab").strip().partition(f"cd {place}")
    assert re.fullmatch(r"\d+ \d+ \* \* \* ", fields) and "%" not in line
    lay(tmp_path)

    def nightly():
        assert shell(f"cd {shlex.quote(str(tmp_path))}{line}", "/").returncode == 0
        return [(one.exit, len(read(tmp_path / ".breakrank").entries[one.id])) for one in sessions()]

    def sessions():
        return read(tmp_path / ".breakrank").sessions

    assert nightly() == [(0, 4)]
    assert night(tmp_path, kill_at="running 2").returncode == -signal.SIGKILL
    assert nightly() == [(0, 4), (0, 4)]
    assert nightly() == [(0, 4), (0, 4), (0, 4)]
    assert "1 deselected" in (tmp_path / "night.log").read_text()
