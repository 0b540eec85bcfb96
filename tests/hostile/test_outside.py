"""Strikes act in the private view: a path that leads out of it is not struck, and nothing outside is changed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support import canary, containers
from support.lasting import soak

from breakrank.doctor import missing
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.trigger import at

NEEDS = sorted({need for kind in (faults.FillDisk, faults.FailCall) for need in kind.needs})
pytestmark = pytest.mark.skipif(bool(missing(NEEDS)), reason=missing(NEEDS))

FOLDER = "data/checkpoints"
#: Each fault that writes, moves, mounts or deletes by a path, at a step of its own.
WALLED = (
    faults.FillDisk(folder=FOLDER, room_kb=400),
    faults.RemountReadOnly(folder=FOLDER),
    faults.FailReads(path=f"{FOLDER}/*.bin"),
)
FREE = (faults.FailCall(call="read", path=f"{FOLDER}/old.bin"),)

#: Makes a step for each strike, and, if told so, changes the folder's files between the first two.
SCRIPT = """
import os, sys
from breakrank_agent import step

folder, changes = "data/checkpoints", len(sys.argv) > 1 and os.environ["RANK"] == "0"
held = open(folder + "/kept.bin", "ab") if changes else None
step()
if changes:
    os.remove(folder + "/old.bin")
    os.mkdir(folder + "/made")
    for name in ("new.bin", "made/newer.bin"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("new")
    with open(folder + "/hard.bin", "r+") as file:
        file.write("changed")
    os.symlink("/etc/passwd", folder + "/out")
    held.write(b"kept")
    held.close()
step()
if changes:
    try:
        open(folder + "/newer.bin", "w")
    except OSError as error:
        print(error.strerror)
step()
if changes:
    try:
        print(len(open(folder + "/new.bin").read()))
    except OSError as error:
        print(error.strerror)
step()
if os.environ["RANK"] == "0" and not changes:
    try:
        open(folder + "/old.bin").read()
    except OSError:
        pass
"""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return another disk, which is not the script's."""
    canary.lay(tmp_path / "disk")
    return tmp_path / "disk"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a script."""
    (tmp_path / "project/sub").mkdir(parents=True)
    (tmp_path / "project/train.py").write_text(SCRIPT)
    return tmp_path / "project"


def strike(bench: Bench, where: Path, runner: str, *struck: faults.Fault, changes: bool = False) -> tuple:
    """Strike rank 0 of the script at one step after the other; return the result, and the phases of each strike."""
    strikes = tuple(Strike(one, at(rank=0, step=n, point="step"), (0,)) for n, one in enumerate(struck, 1))
    image = containers.require(containers.BARE["3.13"]) if runner == "docker" else ""
    plan = Plan("test", "train.py", "", command=("train.py", *(["changes"] if changes else [])))
    plan = replace(
        plan,
        framework="none" if image else "torch",
        pin=False,
        steps=0,
        oracles=("ends",),
        control="",
        strikes=strikes,
        runner=runner,
        image=image,
    )
    result = bench.run(Request(plan, where=where))
    events = load_run(result.folder).history.seen("strike")
    return result, [[(e["phase"], e.get("why", "")) for e in events if e["strike"] == n] for n in range(len(struck))]


#: By layout, the target of the link `data`, and the reason that the strike gives.
LEADS_OUT = {
    "absolute": ("{disk}", "leads out of the working folder, to {disk}/checkpoints"),
    "relative": ("../disk", "leads out of the working folder, to {disk}/checkpoints"),
    "through-dots": ("sub/../../project/../disk/.", "leads out of the working folder, to {disk}/checkpoints"),
    "chain": ("chain", "leads out of the working folder, to {disk}/checkpoints"),
    "dangling": ("../nothing", "symbolic link to nothing"),
    "loop": ("data", "symbolic links"),
}


def refused(phases: list, why: str) -> bool:
    """Return whether a strike missed, for this reason, and nothing was healed."""
    return [phase for phase, _ in phases] == ["missed"] and why in phases[0][1]


@pytest.mark.parametrize("layout", LEADS_OUT)
def test_what_leads_out_of_the_view_is_not_struck(bench, project, disk, layout):
    to, why = (text.format(disk=disk) for text in LEADS_OUT[layout])
    (project / "chain").symlink_to("../disk")
    (project / "data").symlink_to(to)
    before = canary.seen(disk), canary.seen(project)
    result, phases = strike(bench, project, "sandbox", *WALLED, *FREE)
    assert (canary.seen(disk), canary.seen(project)) == before
    assert result.verdict.outcome is Outcome.VOID
    assert refused(phases[0], why) and refused(phases[1], why), phases
    assert refused(phases[2], why.replace("/checkpoints", "") if layout not in ("dangling", "loop") else "no data")
    assert layout in ("dangling", "loop") or refused(phases[3], why), phases
    assert any(why in reason for reason in result.verdict.void)
    assert not (disk.parent / "nothing").exists()


@pytest.mark.parametrize("folder", ["../disk/checkpoints", "{disk}/checkpoints", "..", "/etc"])
def test_a_strike_whose_own_path_leads_out_is_none(bench, project, disk, folder):
    folder = folder.format(disk=disk)
    before = canary.seen(disk), canary.seen(project)
    struck = faults.FillDisk(folder=folder), faults.RemountReadOnly(folder=folder)
    _, phases = strike(bench, project, "sandbox", *struck, faults.FailReads(path=f"{folder}/*"))
    assert all(refused(one, f"{folder} leads out of the working folder, to ") for one in phases), phases
    assert (canary.seen(disk), canary.seen(project)) == before


def test_what_leads_out_is_not_struck_without_walls_either(bench, project, disk):
    (project / "data").symlink_to("../disk")
    before = canary.seen(disk), canary.seen(project)
    _, phases = strike(bench, project, "process", *FREE)
    assert refused(phases[0], f"{FOLDER}/old.bin leads out of the working folder, to {disk}/checkpoints/old.bin")
    _, phases = strike(bench, project, "process", faults.RotFile(path=f"{FOLDER}/old.bin"))
    assert refused(phases[0], f"{FOLDER}/old.bin leads out of the working folder, to {disk}/checkpoints/old.bin")
    assert (canary.seen(disk), canary.seen(project)) == before


@pytest.mark.parametrize("runner", ["process", "docker"])
def test_a_bit_flips_in_the_copy_alone(bench, project, disk, runner):
    canary.lay(project / "real")
    (project / "data").symlink_to("real")
    before = canary.seen(project)
    result, phases = strike(bench, project, runner, faults.RotFile(path=f"{FOLDER}/ol*.bin", share=0.0, bit=9))
    assert [phase for phase, _ in phases[0]] == ["landed"], phases
    assert canary.seen(project) == before
    old, new = (
        (project / FOLDER / "old.bin").read_bytes(),
        (result.folder / "work/real/checkpoints/old.bin").read_bytes(),
    )
    assert new == bytes([old[0], old[1] ^ 2]) + old[2:]


def test_a_file_that_has_another_name_keeps_its_bits(bench, project, disk):
    """The rank gives it that name, which may lie where the job's files end."""
    canary.lay(project / "data")
    (project / "train.py").write_text(
        f"import os\nif os.environ['RANK'] == '0':\n    os.link('{FOLDER}/old.bin', 'b')\n" + SCRIPT
    )
    result, phases = strike(bench, project, "process", faults.RotFile(path=f"{FOLDER}/old.bin"))
    assert refused(phases[0], f"{FOLDER}/old.bin has another name, too")
    assert (result.folder / "work/b").read_bytes() == (project / FOLDER / "old.bin").read_bytes()


#: Links to a folder that lies inside, as (link, target).
LEADS_INSIDE = {
    "plain": [],
    "relative": [("data", "real")],
    "absolute": [("data", "{project}/real")],
    "through-dots": [("data", "sub/../../project/real")],
    "below": [("real/checkpoints", "../real/below"), ("data", "real")],
}


@pytest.mark.parametrize(
    ("runner", "layout"),
    # In a container the folder has another path, so an absolute link into it leads to nothing.
    [*(("sandbox", one) for one in LEADS_INSIDE), *(("docker", one) for one in ("plain", "relative", "below"))],
)
def test_what_leads_inside_is_struck_where_it_leads(bench, project, disk, runner, layout):
    """A full disk, a read-only one on top of it, and failing reads on top of that are healed in the end."""
    canary.lay(project / ("real" if LEADS_INSIDE[layout] else "data"))
    for link, to in LEADS_INSIDE[layout]:
        if link == "real/checkpoints":
            (project / link).rename(project / "real/below")
        (project / link).symlink_to(to.format(project=project))
    # A file of the folder has another name outside.
    os.link(disk / "checkpoints/kept.bin", project / FOLDER / "hard.bin")
    before = canary.seen(disk), canary.seen(project)
    result, phases = strike(bench, project, runner, *WALLED, changes=True)
    assert (canary.seen(disk), canary.seen(project)) == before
    assert [[phase for phase, _ in one] for one in phases] == [["landed", "healed"]] * 3, phases
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    printed = (result.folder / "attempt-0/rank-0.out").read_text().splitlines()
    assert printed == ["Read-only file system", "Input/output error"]
    work = result.folder / "work" / (os.path.relpath((project / FOLDER).resolve(), project))
    assert (work / "new.bin").read_text() == (work / "made/newer.bin").read_text() == "new"
    assert (work / "hard.bin").read_bytes().startswith(b"changed")
    assert (work / "kept.bin").read_bytes() == (disk / "checkpoints/kept.bin").read_bytes() + b"kept"
    assert os.readlink(work / "out") == "/etc/passwd"
    # A file that a container removes stays in the copy from which the container got it.
    assert runner == "docker" or not (work / "old.bin").is_file()
    assert not [path for path in work.rglob("*.tmp") if not path.is_dir()]


@pytest.mark.parametrize("runner", ["process", "docker"])
def test_a_call_fails_where_the_link_leads(bench, project, disk, runner):
    canary.lay(project / "real")
    (project / "data").symlink_to("real")
    before = canary.seen(disk), canary.seen(project)
    # The strike must be due before the file is read, which is after the fourth step.
    _, phases = strike(bench, project, runner, *FREE)
    assert [phase for phase, _ in phases[0]] == ["landed", "healed"], phases
    assert (canary.seen(disk), canary.seen(project)) == before


@pytest.mark.parametrize("runner", ["process", "sandbox", "docker"])
def test_another_file_system_below_the_folder_stays_as_it_is(bench, project, disk, runner):
    if os.geteuid() != 0:
        pytest.skip("mounting something below the folder needs root")
    (project / "data").mkdir()
    subprocess.run(["mount", "--bind", str(disk), str(project / "data")], check=True)
    try:
        before = canary.seen(disk)
        strike(bench, project, runner, *(FREE if runner == "process" else (*WALLED, *FREE)))
        assert canary.seen(disk) == before
    finally:
        subprocess.run(["umount", str(project / "data")], check=True)


@pytest.mark.parametrize("to", ["/etc", soak("/proc/1/root/etc"), soak("{disk}")])
def test_in_a_container_nothing_outside_is_struck(bench, project, disk, to):
    lays = f"import os\nif os.environ['RANK'] == '0':\n    os.symlink({to.format(disk=disk)!r}, 'data')\n"
    (project / "train.py").write_text(lays + SCRIPT)
    before = canary.seen(disk), canary.seen(project)
    struck = faults.FillDisk(folder="data"), faults.RemountReadOnly(folder="data"), faults.FailReads(path="data/h*")
    result, phases = strike(bench, project, "docker", *struck)
    assert [[phase for phase, _ in one] for one in phases] == [["missed"]] * 3, phases
    assert result.verdict.outcome is Outcome.VOID
    if to == "/etc":
        assert refused(phases[0], "data leads out of the working folder, to /etc")
    assert (canary.seen(disk), canary.seen(project)) == before


def in_container(bench: Bench, where: Path, script: str):
    """Run a script, in two containers, in a folder."""
    (where / "train.py").write_text(f"import os, shutil\nif os.environ['RANK'] == '0':\n    {script}\n")
    plan = Plan("test", "train.py", "", framework="none", command=("train.py",), pin=False, steps=0, oracles=("ends",))
    plan = replace(plan, runner="docker", image=containers.require(containers.BARE["3.13"]), control="")
    return bench.run(Request(plan, where=where))


@pytest.mark.parametrize("to", ["/etc", soak("/proc/self/root/etc"), soak("/")])
def test_a_container_that_puts_a_link_in_the_place_of_its_folder_gets_nothing_of_ours(bench, project, to):
    swap = f"here = os.getcwd(); os.rename(here, here + '.old'); os.symlink({to!r}, here)"
    result = in_container(bench, project, swap)
    lost = [why for why in result.verdict.void if why.startswith("the working folder is lost")]
    assert len(lost) == 1 and "is a symbolic link now" in lost[0] and "\n" not in lost[0]
    assert {path.name for path in (result.folder / "work").iterdir()} == {"train.py", "sub"}


def test_a_link_in_a_containers_folder_comes_back_as_a_link(bench, project):
    result = in_container(bench, project, "os.symlink('/etc', 'checkpoints'); os.symlink('..', 'up')")
    work = result.folder / "work"
    assert os.readlink(work / "checkpoints") == "/etc" and os.readlink(work / "up") == ".."


def test_what_comes_back_from_a_container_is_written_through_no_link(bench, project, disk):
    (project / "data").symlink_to(disk)
    (project / "file.bin").symlink_to(disk / "checkpoints/old.bin")
    before = canary.seen(disk)
    result = in_container(
        bench,
        project,
        "os.remove('data'); os.makedirs('data/checkpoints'); os.remove('file.bin'); os.mkfifo('pipe')\n"
        "    for name in ('data/checkpoints/old.bin', 'data/new.bin', 'file.bin'):\n"
        "        open(name, 'w').write('from inside')",
    )
    assert canary.seen(disk) == before
    work = result.folder / "work"
    assert not (work / "data").is_symlink() and (work / "data/checkpoints/old.bin").read_text() == "from inside"
    assert not (work / "file.bin").is_symlink() and not (work / "pipe").exists()
    assert result.verdict.notes == ("pipe of the working folder is not kept: it is no file, folder or link",)
