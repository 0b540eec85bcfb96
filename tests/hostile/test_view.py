"""A script's view shows its folder with all that is mounted below it, and nothing of ours.

Goal: no script misses a file in a view, and none destroys a file outside of it.
Method: real mounts below a real folder, in each runner that has a view; the machine's side is compared afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.ground import PYTEST
from support.plans import plan_of

from breakrank.doctor import missing
from breakrank.errors import BreakrankError
from breakrank.runners import overlay
from breakrank.runners.workdir import copy_folder
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts where everybody sees it")

#: The ways to start one rank in the view of a script's folder.
RUNNERS = {
    "process": {"runner": "process", "command": ("train.py",)},
    "sandbox": {"runner": "sandbox", "command": ("train.py",)},
    "launcher": {"runner": "join", "command": (sys.executable, "train.py"), "ranks": 0},
}

#: Lists the files that it finds, tries to write everywhere, and removes a file.
LOOKS = """\
import os, shutil

def tried(what, *words):
    try:
        what(*words)
        return "done"
    except OSError as error:
        return os.strerror(error.errno)

def write(path):
    with open(path, "w") as file:
        file.write("changed")

found = []
for where, folders, names in os.walk("."):
    folders[:] = [name for name in folders if name != "proc"]
    found += [os.path.join(where, name)[2:] for name in names]
answers = [tried(write, path) for path in ("data/new", "data/inner/new", "frozen/new", "single")]
tried(os.remove, "data/old")
with open("seen.txt", "w") as file:
    print(sorted(found), os.path.exists("proc/self/status"), answers, file=file, sep="\\n")
"""

#: A sound job that removes all files in its folder, as some jobs do to begin anew.
EMPTIES = """\
import os, shutil
import {what}
import breakrank_agent

for step in range(3):
    breakrank_agent.step()
    for name in os.listdir("."):
        shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)
    with open("left.txt", "w") as file:
        file.write(str(os.listdir(".")))
"""


@pytest.fixture
def mounted(tmp_path):
    """Yield a folder with mounts of each kind below it, which are unmounted in the end."""
    folder, single = tmp_path / "a job: of, mine", tmp_path / "single"
    for name in ("data", "frozen", "proc"):
        (folder / name).mkdir(parents=True)
    single.write_text("single")
    (folder / "single").touch()
    made = []

    def mount(where, *how):
        subprocess.run(["mount", *how, str(where)], check=True)
        made.append(where)

    mount(folder / "data", "-t", "tmpfs", "none")
    (folder / "data" / "inner").mkdir()
    mount(folder / "data" / "inner", "-t", "tmpfs", "none")
    mount(folder / "frozen", "-t", "tmpfs", "-o", "ro", "none")
    mount(folder / "proc", "-t", "proc", "none")
    mount(folder / "single", "--bind", str(single))
    for name in ("data/old", "data/inner/old", "train.py"):
        (folder / name).write_text("old")
    yield folder
    for where in reversed(made):
        subprocess.run(["umount", str(where)], check=True)


def state(folder):
    """Return the files of a folder and its mounts, by path: the bytes of each, and the time of its last change."""
    found = {}
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "proc"]
        for path in (Path(where, name) for name in (*folders, *names)):
            found[str(path.relative_to(folder))] = (path.is_file() and path.read_bytes(), path.lstat().st_mtime_ns)
    return found


def script_plan(how):
    return replace(plan_of(""), **{"ranks": 1, "pin": False, "steps": 0, "oracles": ("ends",), **RUNNERS[how]})


@pytest.mark.parametrize("how", RUNNERS)
def test_what_is_mounted_below_the_folder_is_there_and_stays_untouched(bench, mounted, how):
    (mounted / "train.py").write_text(LOOKS)
    before = state(mounted)
    result = bench.run(Request(script_plan(how), where=mounted))
    assert state(mounted) == before
    work = result.folder / "work"
    found, proc, answers = (work / "seen.txt").read_text().splitlines()
    assert found == "['data/inner/old', 'data/old', 'single', 'train.py']" and proc == "True"
    refused = os.strerror(30)
    assert answers == str(["done", "done", refused, refused])
    # The files that the rank wrote are kept at their places.
    assert (work / "data/new").read_text() == (work / "data/inner/new").read_text() == "changed"
    assert {path.name for path in work.iterdir()} == {"data", "seen.txt"}
    assert [note for note in result.verdict.notes if "mounted" in note] == [
        "what is mounted at proc (proc) is not protected: the script has the machine's own",
        f"what is mounted at single ({kind_of(mounted)}) could only be read: it can be no layer of a private view",
    ]


def test_a_mount_that_cannot_be_protected_is_said_before_anything_runs(mounted):
    (mounted / "train.py").write_text("import torch")
    (mounted / "pytest.ini").write_text("[pytest]\n")
    options = ["-p", "no:cacheprovider", "-p", "breakrank.plugin", "--scenario=baseline", "--scenario-dry-run"]
    command = [*PYTEST, *options, "--scenario-train=train.py"]
    done = subprocess.run(command, cwd=mounted, capture_output=True, text=True)
    said = [line for line in done.stdout.splitlines() if "mounted" in line]
    assert said == ["breakrank: what is mounted at proc (proc) is not protected: the script has the machine's own"]


def kind_of(folder):
    """Return the kind of file system that the folder lies on, in the kernel's words."""
    done = subprocess.run(["stat", "--file-system", "--format=%T", folder], capture_output=True, text=True, check=True)
    return {"ext2/ext3": "ext4", "overlayfs": "overlay"}.get(done.stdout.strip(), done.stdout.strip())


@pytest.mark.parametrize("how", RUNNERS)
def test_a_script_that_empties_its_folder_destroys_no_record(tmp_path, how):
    from breakrank.runs.bench import Bench

    # A launcher's rank calls home when it imports a framework; a script without one starts fast.
    (tmp_path / "train.py").write_text(EMPTIES.format(what="torch" if how == "launcher" else "sys"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old").write_text("old")
    with Bench(tmp_path / ".breakrank") as bench:
        earlier = bench.run(Request(script_plan(how), where=tmp_path))
        before = state(earlier.folder)
        command = script_plan(how).command
        env = {"RANK": "0", "WORLD_SIZE": "1"} if how == "launcher" else {}
        result = bench.run(Request(replace(script_plan(how), command=command, environment=env), where=tmp_path))
    assert (tmp_path / "data" / "old").read_text() == "old" and (tmp_path / "train.py").exists()
    assert state(earlier.folder) == before
    # All files of the folder could be removed, and none of ours was among them.
    assert (result.folder / "work" / "left.txt").read_text() == "['left.txt']"
    assert load_run(result.folder).history.last[0].ended_well
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict


def test_a_copy_has_what_is_mounted_and_holds_files_and_says_what_it_lacks(mounted, tmp_path):
    os.mkfifo(mounted / "pipe")
    before, copy = state(mounted), tmp_path / "copy"
    said = copy_folder(mounted, copy, mounted / "none", "a test")
    assert said == ("what is mounted at proc (proc) was not there: it cannot be copied",)
    assert {path: what for path, (what, _) in state(copy).items()} == {
        path: what for path, (what, _) in before.items() if path not in ("pipe", "proc")
    }


#: Runs a command as a person who is not root: without any right outside of a user namespace.
NOBODY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


@pytest.mark.skipif(bool(missing(["namespaces"])), reason=missing(["namespaces"]))
@pytest.mark.soak
def test_without_root_a_view_leaves_nothing_behind_and_a_copy_has_what_is_mounted(mounted, tmp_path):
    (mounted / "train.py").write_text(LOOKS)
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "train.py").write_text(LOOKS)
    for folder, found in ((alone, "['train.py']"), (mounted, "['data/inner/old', 'data/old', 'single', 'train.py']")):
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "breakrank.plugin",
            "--scenario=baseline",
            "--scenario-ranks=1",
        ]
        command = [*NOBODY, *PYTEST, *options, "--scenario-train=train.py"]
        (folder / "pytest.ini").write_text("[pytest]\n")
        subprocess.run(command, cwd=folder, capture_output=True)
        (folder / "pytest.ini").unlink()
        (run,) = (folder / ".breakrank").glob("baseline-*")
        lines = (run / "work" / "seen.txt").read_text().splitlines()
        assert lines[0].replace("'pytest.ini', ", "") == found
        assert not (run / "work.overlay").exists()
        notes = json.loads((run / "verdict.json").read_text())["notes"]
        assert [note.startswith("no overlay here") for note in notes if "overlay" in note] == [True] * (
            folder == mounted
        )


def test_the_runs_cannot_lie_in_the_folder_itself(bench, tmp_path):
    (bench.runs / "train.py").write_text("")
    with pytest.raises(BreakrankError, match="cannot be kept in the folder of the script itself"):
        bench.run(Request(script_plan("process"), where=bench.runs))


def test_a_mount_that_another_one_hides_is_none_of_the_view(mounted):
    subprocess.run(["mount", "-t", "tmpfs", "none", str(mounted / "data")], check=True)
    try:
        found = overlay.mounts_below(str(mounted))
        for one in found:
            os.close(one.root)
    finally:
        subprocess.run(["umount", str(mounted / "data")], check=True)
    assert sorted(os.path.relpath(one.path, mounted) for one in found) == ["data", "frozen", "proc", "single"]
