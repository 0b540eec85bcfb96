"""Folders whose names hold what search paths, mount options and terminals split or refuse."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.ground import environment, pytest_in, stepping
from support.lasting import soak

from breakrank.errors import BreakrankError
from breakrank.host.agent_link import is_passable, make_detour, remove_detours
from breakrank.host.session import Session

#: Names that a search path, mount options or a terminal split or refuse; ALL has each of them in one name.
NAMES = {
    "colon": "a:b",
    "comma and backslash": "a,b c\\d",
    "newline": "a\nä∂",
    "not utf-8": os.fsdecode(b"a\xff"),
}
ALL = os.fsdecode("a:b,c d\\e\nä∂".encode() + b"\xff")


@pytest.fixture
def odd(tmp_path):
    """A folder with all of these in its name."""
    folder = tmp_path / ALL
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def said(done, words):
    text = done.stdout + done.stderr
    assert words in text and "Traceback" not in text, text


def detours(folder):
    """Return the ways that lead into a folder; other tests may have ways of their own meanwhile."""
    ways = Path("/tmp").glob("breakrank-*/*")
    return [way for way in ways if way.is_symlink() and folder in Path(os.readlink(way)).parents]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_in_a_folder_of_that_name_runs_in_a_view_of_it(tmp_path, bench_in, name):
    folder = tmp_path / NAMES[name]
    folder.mkdir()
    result = bench_in(folder)
    assert str(result.verdict.outcome) == "SURVIVED", result.verdict.to_json()
    assert (result.folder / "work/written.txt").exists() and not (folder / "written.txt").exists()
    assert detours(folder) == []


@pytest.fixture
def bench_in():
    """Run a script as one rank, in the folder in which its run directory lies, too."""
    from dataclasses import replace

    from support.plans import plan_of

    from breakrank.runs.bench import Bench
    from breakrank.runs.request import Request

    def go(folder):
        (folder / "train.py").write_text(stepping("open('written.txt', 'w').close()"))
        plan = replace(plan_of(""), command=("train.py",), ranks=1, pin=False, steps=0, oracles=("ends",))
        with Bench(folder / ".breakrank", cold=True) as bench:
            return bench.run(Request(plan, where=folder))

    return go


@pytest.mark.parametrize("runner", ["process", "sandbox"])
def test_cases_of_the_catalogue_run_where_the_folder_has_them_all(odd, runner):
    done = pytest_in(odd, "--scenario=baseline::torch-ddp", f"--scenario-runner={runner}")
    said(done, "1 as recorded, 0 changed, 0 not tested")
    assert done.returncode == 0 and detours(odd) == []


@pytest.mark.parametrize(
    "command", ["train.py", soak(f"{sys.executable} -m torch.distributed.run --nproc-per-node=2 train.py")]
)
def test_a_script_is_judged_where_the_folder_has_them_all(odd, command):
    # A launcher's rank calls when it imports a framework; to start without one is quick.
    first = "" if command == "train.py" else "import torch\n"
    (odd / "train.py").write_text(first + stepping("open('written.txt', 'w').close()"))
    done = pytest_in(odd, "--scenario=baseline", f"--scenario-train={command}")
    said(done, "1 fine, 0 not fine, 0 not tested")
    assert done.returncode == 0 and not (odd / "written.txt").exists()
    (folder,) = (odd / ".breakrank").glob("baseline-*")
    for word in ("show", "judge"):
        command = [sys.executable, "-m", "breakrank", word, str(folder)]
        shown = subprocess.run(command, cwd=odd, capture_output=True, env=environment(), timeout=300)
        assert shown.returncode == 0 and b"Traceback" not in shown.stderr and b"SURVIVED" in shown.stdout


def test_xdist_says_in_one_line_that_it_has_no_words_for_such_a_folder(odd):
    pytest.importorskip("xdist")
    done = pytest_in(odd, "--scenario=baseline::torch-ddp", "-n1")
    said(done, "xdist cannot tell its workers of")
    assert done.returncode == 4


@pytest.mark.parametrize("name", ["colon", "not utf-8"])
def test_what_a_search_path_cannot_hold_is_reached_by_another_way(tmp_path, name):
    target = tmp_path / NAMES[name] / "agent-0-importlib_bootstrap"
    target.mkdir(parents=True)
    way = make_detour(target, "1-2-3-0a0b0c0d")
    try:
        assert is_passable(way) and way.resolve() == target and way.name == target.name
        assert way.parent.stat().st_mode & 0o777 == 0o700
    finally:
        assert remove_detours("1-2-3-0a0b0c0d") == [f"folder {way.parent}"]
    assert not way.parent.exists() and target.exists()


def test_other_folders_are_imported_from_as_they_are(tmp_path):
    assert make_detour(tmp_path, "1-2-3-0a0b0c0d") == tmp_path


def test_ways_of_the_dead_are_swept_and_no_others(tmp_path):
    target = tmp_path / "a:b"
    target.mkdir()
    (target / "precious").touch()
    session = Session()
    try:
        # The owner of the first detour is dead; the namespace of the last one is not ours.
        dead, alive = f"999999999-1-{session.id.split('-')[2]}-0a0b0c0d", session.id
        ways = {owner: make_detour(target, owner).parent for owner in (dead, alive, "5-5-5-0a0b0c0d")}
        foreign = Path(f"/tmp/breakrank-notes{os.getpid()}")
        foreign.mkdir()
        remove_detours(dry_run=True)
        assert ways[dead].exists()
        remove_detours()
        assert [owner for owner, way in ways.items() if way.exists()] == [alive, "5-5-5-0a0b0c0d"]
        assert foreign.exists() and (target / "precious").exists()
    finally:
        session.close()
        foreign.rmdir()
        for owner in (alive, "5-5-5-0a0b0c0d"):
            remove_detours(owner)


KILLED = """
import os, sys
from pathlib import Path
from breakrank.runs.bench import Bench
bench = Bench(Path(sys.argv[1]), cold=True)
print(len(list(Path("/tmp").glob(f"breakrank-{os.getpid()}-*"))), bench.supervisor_pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_no_way_is_left_when_its_owner_is_killed(odd):
    import psutil

    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(odd / "runs")], capture_output=True, env=environment(), timeout=300
    )
    ways, supervisor = map(int, done.stdout.split())
    assert ways == 1, done.stderr
    # The supervisor ends what is left, and then itself.
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(supervisor).wait(120)
    assert detours(odd) == []


def test_without_a_place_for_a_way_it_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("breakrank.host.agent_link._places", lambda: iter([tmp_path / "missing"]))
    with pytest.raises(BreakrankError, match="set TMPDIR") as caught:
        make_detour(tmp_path / "a:b", "1-2-3-0a0b0c0d")
    assert "\n" not in str(caught.value)
