"""The disk of the runs fills while ranks run: the case is VOID, with the reason, and what was recorded can be read."""

from __future__ import annotations

import errno
import json
import os

import pytest
from support.ground import on_a_disk_of, pytest_in, small_disks, stepping

from breakrank.__main__ import main
from breakrank.errors import BreakrankError, NoSpaceError
from breakrank.files.bounded import Folder
from breakrank.files.disk_space import KEPT_BYTES, RecordFile, Room, keep_room, unwritable, write_verdict
from breakrank.history.output import Output
from breakrank.history.rank_file import Chronicle, read_chronicle

#: Takes all that the disk has, to the last byte, and goes on. Both ranks have made a hundred steps by then.
FILLS = """
if step == 100:
    open(f"here-{os.environ['RANK']}", "w").close()
    while not (os.path.exists("here-0") and os.path.exists("here-1")):
        time.sleep(0.01)
    with open(f"big-{os.environ['RANK']}", "wb", buffering=0) as file:
        for piece in (b"x" * 65536, b"x"):
            try:
                while True:
                    file.write(piece)
            except OSError:
                pass
print("y" * 1000, flush=True)
"""


@pytest.fixture
def ground(tmp_path):
    """Return a folder with a script that fills the disk of the runs."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nscenario_runs = runs\n")
    (tmp_path / "train.py").write_text(stepping(FILLS, steps=400))
    (tmp_path / "runs").mkdir()
    return tmp_path


def started(ground, *arguments):
    done = pytest_in(ground, "--scenario-train=train.py", *arguments, wrapped=on_a_disk_of(100, ground / "runs"))
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout and "HUNG" not in done.stdout
    return done


@small_disks
def test_a_case_that_fills_the_disk_is_void_and_the_next_one_says_the_same(ground, capsys):
    done = started(ground, "--scenario=baseline,killed_rank")
    lack = f"no space left in {ground / 'runs'}"
    assert done.returncode == 1, done.stdout
    assert f"baseline::train.py: VOID: {lack}\n" in done.stdout
    assert "killed_rank::train.py-kill-optimize: no space is left in" in done.stdout
    assert "0 as recorded, 0 changed, 3 not tested" in done.stdout
    (folder,) = (ground / "runs.kept").glob("baseline-*")
    verdict = json.loads((folder / "verdict.json").read_text())
    assert (verdict["outcome"], verdict["void"][0]) == ("VOID", lack)
    for rank in (0, 1):
        events = list(read_chronicle(Folder(folder), f"attempt-0/rank-{rank}.jsonl"))
        assert max(event["step"] for event in events) >= 2
    # The saved part of the run can be shown, and it is judged again as it was.
    assert main(["show", str(folder)]) == 0 and lack in capsys.readouterr().out
    assert main(["judge", str(folder)]) == 0


@small_disks
def test_a_control_that_fills_the_disk_is_no_control(ground):
    done = started(ground, "--scenario=killed_rank")
    assert done.returncode == 1
    assert f"VOID: no space left in {ground / 'runs'}" in done.stdout
    assert "2 not tested" in done.stdout


@small_disks
def test_xdist_workers_go_on_on_a_full_disk(ground):
    pytest.importorskip("xdist")
    done = started(ground, "--scenario=baseline,killed_rank", "-n2")
    assert done.returncode == 1
    assert "0 as recorded, 0 changed, 3 not tested" in done.stdout
    assert done.stdout.count("no space") >= 3


@small_disks
def test_on_a_disk_with_room_the_same_script_is_judged(ground):
    (ground / "train.py").write_text(stepping("print('y' * 1000, flush=True)"))
    done = pytest_in(
        ground, "--scenario=baseline", "--scenario-train=train.py", wrapped=on_a_disk_of(100, ground / "runs")
    )
    assert done.returncode == 0, done.stdout
    (folder,) = (ground / "runs.kept").glob("baseline-*")
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == [
        "conductor.jsonl", "meta.json", "plan.json", "verdict.json",
    ]  # fmt: skip


class FullAfter:
    """Stands in for pwrite(2) on a disk that has room for so many bytes; it writes what fits, as the kernel does."""

    def __init__(self, room):
        self.room = room
        self._pwrite = os.pwrite

    def __call__(self, descriptor, data, offset):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._pwrite(descriptor, data[: self.room], offset)
        self.room -= written
        return written


def test_a_record_that_does_not_fit_is_not_there_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwrite", FullAfter(25))
    room = Room(tmp_path)
    chronicle = Chronicle(tmp_path / "rank-0.jsonl", room=room)
    for number in range(4):
        chronicle.append(b'{"kind":"%d"}' % number)
    chronicle.close()
    assert [event["kind"] for event in read_chronicle(Folder(tmp_path), "rank-0.jsonl")] == ["0"]
    assert room.lack == f"no space left in {tmp_path}"


def test_after_a_record_was_lost_none_is_written_unless_asked_for(tmp_path, monkeypatch):
    disk = FullAfter(2)
    monkeypatch.setattr(os, "pwrite", disk)
    for name, goes_on, kept in (("once", False, b"a\n"), ("again", True, b"a\nc\n")):
        disk.room = 2
        file = RecordFile(tmp_path / name, Room(tmp_path), goes_on)
        assert file.write(b"a\n") and not file.write(b"b\n")
        disk.room = 2
        file.write(b"c\n")
        file.close()
        assert (tmp_path / name).read_bytes() == kept


def test_what_a_rank_prints_is_taken_though_it_cannot_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwrite", FullAfter(0))
    room = Room(tmp_path)
    output = Output(tmp_path / "rank-0.out", room)
    output.take(b"lost" * 500_000)
    output.close()
    assert room.lack and (tmp_path / "rank-0.out").read_bytes() == b""


def test_the_verdict_lies_in_the_room_that_was_kept(tmp_path):
    keep_room(tmp_path)
    kept = (tmp_path / "verdict.json.new").stat()
    assert kept.st_blocks * 512 >= KEPT_BYTES
    write_verdict(tmp_path, b"{}\n")
    written = (tmp_path / "verdict.json").stat()
    assert (written.st_ino, written.st_size) == (kept.st_ino, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["verdict.json"]


def test_a_full_disk_is_told_from_other_reasons(tmp_path):
    for number in (errno.ENOSPC, errno.EDQUOT):
        error = unwritable("cannot write it", tmp_path, OSError(number, os.strerror(number)))
        assert type(error) is NoSpaceError and "free some" in str(error)
    error = unwritable("cannot write it", tmp_path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    assert type(error) is BreakrankError and "Permission denied" in str(error)
