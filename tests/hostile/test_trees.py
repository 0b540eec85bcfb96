"""A folder is copied and put back by descriptors: only what is listed goes, and nothing is written through a link."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import canary

from breakrank.conductor.left_files import tell_remains
from breakrank.runners.docker import retrieval
from breakrank_agent import faults
from breakrank_agent.kernel import trees
from breakrank_agent.kernel.rooted import WorkingFolder, opened
from breakrank_agent.kernel.trees import Copying, listed, put_back


def folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def refuse(path: str, why: str) -> None:
    raise OSError(f"{path}: {why}")


@pytest.fixture
def disk(tmp_path):
    """Return a folder that must stay as it is."""
    canary.lay(tmp_path / "disk")
    return tmp_path / "disk"


@pytest.fixture
def there(tmp_path):
    """Return the folder that is taken."""
    canary.lay(tmp_path / "there")
    return tmp_path / "there/checkpoints"


@pytest.fixture
def taken(tmp_path, there):
    """Take the folder: return the place where it is now, and a function that puts it back."""
    place = tmp_path / "taken"
    place.mkdir()
    with opened(folder(there)) as source, opened(folder(place)) as to:
        was_there = listed(source)
        Copying(refuse, whole=True).copy(source, to)
        was_taken = listed(to)

    def back():
        with opened(folder(there)) as to, opened(folder(place)) as source:
            put_back(source, to, was_taken, was_there)

    return place, back


def names(path: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(above, one), path) for above, dirs, files in os.walk(path) for one in dirs + files
    }


def test_a_copy_is_the_same_and_what_nobody_changed_stays_the_very_same(there, taken):
    place, back = taken
    before = {name: (there / name).lstat() for name in names(there)}
    assert {name: what[0::5] for name, what in canary.seen(place).items() if name != "."} == {
        name: what[0::5] for name, what in canary.seen(there).items() if name != "."
    }
    back()
    after = {name: (there / name).lstat() for name in names(there)}
    assert {name: (s.st_ino, s.st_mtime_ns) for name, s in before.items()} == {
        name: (s.st_ino, s.st_mtime_ns) for name, s in after.items()
    }


def test_what_was_changed_made_or_removed_is_put_back(there, taken):
    place, back = taken
    (place / "kept.bin").write_text("changed")
    (place / "old.bin").unlink()
    (place / "old.bin").mkdir()
    (place / "old.bin/inner").write_text("inner")
    (place / "deep/far.bin").unlink()
    (place / "deep").rmdir()
    (place / "deep").write_text("a file now")
    (place / "link").unlink()
    (place / "new").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe")
    back()
    assert (there / "kept.bin").read_text() == "changed"
    assert (there / "old.bin/inner").read_text() == "inner" and (there / "deep").read_text() == "a file now"
    assert os.readlink(there / "new") == "/etc/passwd" and stat.S_ISFIFO((there / "pipe").lstat().st_mode)
    assert names(there) == {"kept.bin", "old.bin", "old.bin/inner", "deep", "new", "pipe"}


def test_what_came_meanwhile_is_not_removed(there, taken):
    place, back = taken
    for name in ("old.bin", "kept.bin"):
        (place / name).unlink()
    (place / "deep/far.bin").unlink()
    (place / "deep").rmdir()
    # Another rank has put other files in their places.
    (there / "other.bin").write_text("another rank's")
    (there / "deep/other.bin").write_text("another rank's")
    (there / "kept.new").write_text("another rank's")
    (there / "kept.new").replace(there / "kept.bin")
    back()
    assert names(there) == {"link", "other.bin", "deep", "deep/other.bin", "kept.bin"}
    assert (there / "kept.bin").read_text() == "another rank's"


def test_what_is_put_back_is_written_through_no_link_and_no_other_name(disk, there, taken):
    place, back = taken
    (place / "old.bin").write_text("changed")
    (place / "kept.bin").write_text("changed")
    (place / "deep/far.bin").write_text("changed")
    for name in ("old.bin", "kept.bin"):
        (there / name).unlink()
    os.link(disk / "checkpoints/old.bin", there / "old.bin")
    (there / "kept.bin").symlink_to(disk / "checkpoints/kept.bin")
    (there / "deep/far.bin").unlink()
    (there / "deep").rmdir()
    (there / "deep").symlink_to(disk / "checkpoints/deep")
    before = canary.seen(disk)
    with open(disk / "checkpoints/old.bin", "rb") as held:
        back()
        assert held.read() == b"old.bin" * 100
    # The other name of the file is gone, and nothing else.
    before["checkpoints/old.bin"] = (*before["checkpoints/old.bin"][:2], 1, *before["checkpoints/old.bin"][3:])
    assert canary.seen(disk) == before
    assert {(there / name).read_text() for name in ("old.bin", "kept.bin", "deep/far.bin")} == {"changed"}


def test_nothing_is_removed_behind_a_link(disk, there, taken):
    place, back = taken
    (place / "deep/far.bin").unlink()
    (there / "deep/far.bin").unlink()
    (there / "deep").rmdir()
    (there / "deep").symlink_to(disk / "checkpoints/deep")
    before = canary.seen(disk)
    back()
    assert canary.seen(disk) == before


def deepen(path: Path, levels: int) -> None:
    """Make one folder in the other."""
    at = folder(path)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def test_what_lies_too_deep_is_an_error_and_no_crash(taken):
    place, back = taken
    deepen(place, 200)
    with pytest.raises(OSError, match="folders deep"):
        back()


def test_a_strike_that_failed_heals_nothing(disk, there, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    done = []

    def remount(*_, **__):
        raise OSError("remount: no")

    walls = SimpleNamespace(
        mount=lambda *_, **__: os.open(full, os.O_PATH), remount=remount, unmount=lambda mounted: done.append(mounted)
    )
    target = SimpleNamespace(kept={}, walls=walls, files=lambda: WorkingFolder(0, str(there.parent)))
    fault = faults.FillDisk(folder="checkpoints")
    before = canary.seen(there), len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="remount: no"):
        fault.strike(target)
    (full / "old.bin").unlink()
    fault.heal(target)
    assert (canary.seen(there), len(os.listdir("/proc/self/fd"))) == before
    assert len(done) == 1 and target.kept == {}


@pytest.mark.parametrize("kind", [faults.RemountReadOnly, faults.FailReads, faults.ShrinkSharedMemory, faults.FillDisk])
def test_what_was_never_mounted_is_not_taken_away(kind, there):
    def fail(*_, **__):
        raise OSError("mount: no")

    walls = SimpleNamespace(mount=fail, remount=pytest.fail, unmount=pytest.fail)
    target = SimpleNamespace(kept={}, walls=walls, files=lambda: WorkingFolder(0, str(there)))
    fault = kind(path="*.bin") if kind is faults.FailReads else kind()
    with pytest.raises(OSError, match="mount: no"):
        fault.strike(target)
    fault.heal(target)


# --- files that come back from a container


@pytest.fixture
def box(tmp_path):
    """Return the folder of the ranks, and its copy in the run directory."""
    for name in ("inside", "kept"):
        (tmp_path / name).mkdir()
    return tmp_path / "inside", tmp_path / "kept"


def test_only_files_folders_and_links_come_back(box):
    inside, kept = box
    (inside / "file").write_text("content")
    (inside / "file").chmod(0o4755)
    (inside / "link").symlink_to("/etc")
    os.mkfifo(inside / "a-pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(inside / "socket"))
    if os.geteuid() == 0:
        os.mknod(inside / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    left_out = retrieval.bring_back(os.getpid(), str(inside), kept)
    assert names(kept) == {"file", "link"} and os.readlink(kept / "link") == "/etc"
    # The set-user-ID bit of the rank does not come with the file.
    assert stat.S_IMODE((kept / "file").stat().st_mode) == 0o755
    assert (left_out.count, left_out.path) == (3 if os.geteuid() == 0 else 2, "a-pipe")


def test_a_name_of_any_bytes_comes_back_and_is_told_in_one_line(box):
    inside, kept = box
    os.mkfifo(os.fsencode(inside) + b"/pipe\n\xff\x1b")
    Path(os.fsdecode(os.fsencode(inside) + b"/\xfe\n")).write_text("content")
    left_out = retrieval.bring_back(os.getpid(), str(inside), kept)
    assert names(kept) == {os.fsdecode(b"\xfe\n")} and left_out.path == "pipe???"


def test_no_more_comes_back_than_there_is_room_for(box):
    inside, kept = box
    for name, size in (("a", 600), ("b", 600), ("c", 400)):
        (inside / name).write_bytes(b"x" * size)
    with open(inside / "d", "wb") as sparse:
        sparse.truncate(1 << 40)
    left_out = retrieval.bring_back(os.getpid(), str(inside), kept, limit=1000)
    assert names(kept) == {"a", "c"} and (left_out.count, left_out.path) == (2, "b")
    assert left_out.why.startswith("no more than ")


def test_what_is_in_the_way_is_replaced_and_not_written_through(box, disk):
    inside, kept = box
    (inside / "folder").mkdir()
    (inside / "folder/old.bin").write_text("inside")
    (inside / "file").write_text("inside")
    (inside / "hard").write_text("inside")
    (kept / "folder").symlink_to(disk / "checkpoints")
    (kept / "file").symlink_to(disk / "checkpoints/kept.bin")
    os.link(disk / "checkpoints/old.bin", kept / "hard")
    before = canary.seen(disk)
    retrieval.bring_back(os.getpid(), str(inside), kept)
    before["checkpoints/old.bin"] = (*before["checkpoints/old.bin"][:2], 1, *before["checkpoints/old.bin"][3:])
    assert canary.seen(disk) == before
    assert {(kept / name).read_text() for name in ("folder/old.bin", "file", "hard")} == {"inside"}


def test_a_link_in_the_place_of_the_folder_is_refused(box, disk):
    inside, kept = box
    inside.rmdir()
    inside.symlink_to(disk)
    with pytest.raises(OSError, match="is a symbolic link now"):
        retrieval.bring_back(os.getpid(), str(inside), kept)
    assert names(kept) == set()


def test_a_deep_folder_comes_back_as_far_as_it_is_reasonable(box):
    inside, kept = box
    deepen(inside, 200)
    left_out = retrieval.bring_back(os.getpid(), str(inside), kept)
    assert left_out.count == 1 and "folders deep" in left_out.why
    assert len(names(kept)) == trees.DEPTH


def test_a_folder_is_removed_and_nothing_behind_a_link(box, disk):
    inside, _ = box
    (inside / "run/deep").mkdir(parents=True)
    (inside / "run/out").symlink_to(disk)
    (inside / "link").symlink_to(disk)
    before = canary.seen(disk)
    for name in ("run", "link"):
        retrieval.remove(os.getpid(), str(inside / name))
    assert canary.seen(disk) == before and names(inside) == {"link"}


# --- files that are left in the working folder


def test_of_what_ranks_say_that_they_wrote_only_regular_files_inside_are_read(box, disk):
    work, _ = box
    (work / "file").write_text("content")
    (work / "inner").symlink_to("file")
    (work / "out").symlink_to(disk / "checkpoints")
    (work / "null").symlink_to("/dev/zero")
    (work / "memory").symlink_to("/proc/kcore")
    (work / "folder").mkdir()
    os.mkfifo(work / "pipe")
    asked = ["file", "inner", "out/old.bin", "null", "memory", "folder", "pipe", "../disk/checkpoints/old.bin", "gone"]
    asked += [str(disk / "checkpoints/old.bin"), "file\0/etc/passwd", "x/" * 5000]
    with WorkingFolder(0, str(work)) as files:
        told = list(tell_remains(files, asked))
    assert [(one["path"], one["size"]) for one in told] == [("file", 7), ("inner", 7)]
    assert told[0]["file"] == told[1]["file"] and len(told[0]["file"]) == 16


def test_no_more_is_read_than_the_limit(box):
    work, _ = box
    (work / "a").write_text("short")
    with open(work / "b", "wb") as sparse:
        sparse.truncate(1 << 40)
    (work / "c").write_text("short")
    with WorkingFolder(0, str(work)) as files:
        assert [one["path"] for one in tell_remains(files, ["a", "b", "c"], limit=100)] == ["a", "c"]
