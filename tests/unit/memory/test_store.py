"""`history.sqlite`: older files are brought up to date; for one that cannot be used there is one line, and no more."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.ground import environment, on_a_disk_of, small_disks
from support.remembered import entry, remembered, session

from breakrank.errors import BreakrankError
from breakrank.memory.reading import read
from breakrank.memory.recorder import Recorder
from breakrank.memory.schema import STEPS, migrate, version
from breakrank.memory.store import NAME, Store, UnusableError

FILES = Path(__file__).parent / "files"


@pytest.fixture
def path(tmp_path):
    return tmp_path / NAME


@contextlib.contextmanager
def opened(path):
    """Open a file without us."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def older(path, number):
    """Make a file as the version `number` wrote it."""
    with opened(path) as connection:
        connection.executescript((FILES / f"version-{number}.sql").read_text())


def test_there_is_a_file_of_each_version():
    assert {one.name for one in FILES.iterdir()} == {f"version-{n}.sql" for n in range(1, len(STEPS) + 1)}


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
@pytest.mark.parametrize("write", [True, False])
def test_a_file_of_each_older_version_is_read_with_all_that_it_holds(path, number, write):
    older(path, number)
    with Store(path, write=write) as store:
        first, second = store.sessions()
        entries = store.entries([1, 2])
    assert (first.kind, first.git, first.argv, first.selected) == ("nightly", "abc-dirty", ("--scenario=all",), 2)
    assert (second.kind, second.began, second.exit) == ("pytest", "2026-11-02T02:00:00Z", 0)
    flaky, untested = entries[1]
    assert flaky.flaky and flaky.record == "SURVIVED" and flaky.again[0].outcome == "SILENT"
    assert (untested.name, untested.outcome, untested.as_recorded) == ("racy::two", "", None)
    assert [(one.outcome, one.as_recorded, one.session) for one in entries[2]] == [("HUNG", False, 2)]


def test_a_new_file_has_the_tables_of_an_older_one_that_was_brought_up_to_date(tmp_path):
    older(tmp_path / "old", 1)
    for name in ("old", "new"):
        Store(tmp_path / name).close()
    shapes = []
    for name in ("old", "new"):
        with opened(tmp_path / name) as connection:
            shapes.append(set(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")))
            assert version(connection) == len(STEPS)
    assert shapes[0] == shapes[1]


def test_a_step_that_fails_leaves_the_older_file_as_it_was(path):
    older(path, 1)
    with opened(path) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, [*STEPS, "ALTER TABLE sessions ADD COLUMN more TEXT; ALTER TABLE nothing ADD COLUMN x"])
        assert version(connection) == 1
        assert "more" not in {row[1] for row in connection.execute("PRAGMA table_info(sessions)")}


def test_the_file_is_its_owners_alone(path):
    Store(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def damaged(path):
    path.write_bytes(b"no database at all" * 1000)


def torn(path):
    older(path, 1)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def newer(path):
    with opened(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")


def of_another_program(path):
    with opened(path) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")


def with_a_query_for_a_table(path):
    """A query without an end, where a table is looked for."""
    older(path, 1)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n"
    with opened(path) as connection:
        connection.execute("DROP TABLE results")
        connection.execute(f"CREATE VIEW results AS {endless}")


def of_other_types(path):
    older(path, 1)
    with opened(path) as connection:
        connection.execute("UPDATE sessions SET began = x'00ff', argv = 'no list'")
        connection.execute("UPDATE results SET seconds = 'long', seed = 'abc'")


def a_link(path):
    (path.parent / "other").touch()
    path.symlink_to(path.parent / "other")


def a_pipe(path):
    os.mkfifo(path)


WRONG = {
    damaged: "is damaged: file is not a database; move it away",
    torn: "move it away",
    newer: f"was written by a newer Breakrank (version {len(STEPS) + 1}, this one knows {len(STEPS)})",
    of_another_program: "is no history of Breakrank; move it away",
    with_a_query_for_a_table: "is no history of Breakrank; move it away",
    a_link: "is a symbolic link, which is not followed",
    a_pipe: "is no regular file",
}


@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_a_file_that_cannot_be_used_is_one_line_and_stays_as_it_is(path, make):
    make(path)
    before = path.read_bytes() if make is not a_pipe else b""
    recorder = Recorder(path, session())
    recorder.begin()
    recorder.add(entry())
    recorder.end(0)
    assert WRONG[make] in recorder.lack and "\n" not in recorder.lack
    with pytest.raises(BreakrankError) as raised:
        read(path)
    assert WRONG[make] in str(raised.value)
    assert make is a_pipe or path.read_bytes() == before


def test_values_of_other_types_are_one_line(path):
    of_other_types(path)
    with pytest.raises(UnusableError, match="is damaged"):
        read(path)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    recorder = Recorder(tmp_path / "nowhere" / NAME, session())
    recorder.begin()
    recorder.end(0)
    assert "cannot be used: No such file or directory" in recorder.lack


class TestLocked:
    """Another process writes for long."""

    def test_results_are_written_when_the_lock_is_gone(self, path):
        Store(path).close()
        recorder = Recorder(path, session(), wait_s=0.01)
        with opened(path) as other:
            other.execute("BEGIN IMMEDIATE")
            recorder.begin()
            recorder.add(entry("racy::one"))
            assert "database is locked; another process holds it, end that one" in recorder.lack
            other.execute("ROLLBACK")
        recorder.add(entry("racy::two"))
        recorder.end(0)
        assert recorder.lack == ""
        memory = read(path)
        assert [one.name for one in memory.entries[1]] == ["racy::one", "racy::two"]
        assert memory.sessions[0].exit == 0

    def test_a_lock_that_stays_is_one_line_in_the_end(self, path):
        Store(path).close()
        recorder = Recorder(path, session(), wait_s=0.01)
        with opened(path) as other:
            other.execute("BEGIN EXCLUSIVE")
            recorder.begin()
            recorder.add(entry())
            recorder.end(0)
        assert "database is locked" in recorder.lack and "\n" not in recorder.lack


#: Fills a disk, writes a session into its history, makes room, and ends the session.
FILLS = """
import sys
from pathlib import Path
from support.remembered import entry, session
from breakrank.memory.recorder import Recorder
from breakrank.memory.reading import read

disk = Path(sys.argv[1])
recorder = Recorder(disk / "history.sqlite", session())
recorder.begin()
with open(disk / "big", "wb", buffering=0) as file:
    for piece in (b"x" * 65536, b"x"):
        try:
            while True:
                file.write(piece)
        except OSError:
            pass
for number in range(50):
    recorder.add(entry(f"racy::{number}", sentence="s" * 1000))
print(recorder.lack)
(disk / "big").unlink()
recorder.end(0)
print(len(read(disk).entries[1]), repr(recorder.lack))
"""


@small_disks
def test_a_full_disk_is_one_line_and_results_are_written_when_it_has_room(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    command = [*on_a_disk_of(1, disk), sys.executable, "-c", FILLS, str(disk)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    lack, written = done.stdout.splitlines()
    assert "database or disk is full; free some space" in lack, done.stderr
    assert written == "50 ''"


def test_two_sessions_at_once_are_both_there(path):
    """Both begin while there is no file, and write in turn."""
    recorders = [Recorder(path, session(day)) for day in (1, 2)]
    for recorder in recorders:
        recorder.begin()
    for number in range(3):
        for recorder in recorders:
            recorder.add(entry(f"racy::{number}", outcome="SURVIVED" if recorder is recorders[0] else "HUNG"))
    for recorder in recorders:
        recorder.end(0)
    memory = read(path)
    assert [len(memory.entries[one.id]) for one in memory.sessions] == [3, 3]
    assert [{e.outcome for e in memory.entries[one.id]} for one in memory.sessions] == [{"SURVIVED"}, {"HUNG"}]


#: Waits for the others, and writes a session of ten results.
WRITES = """
import sys
from pathlib import Path
from support.remembered import entry, session
from breakrank.memory.recorder import Recorder

recorder = Recorder(Path(sys.argv[1]), session())
print("ready", flush=True)
sys.stdin.readline()
recorder.begin()
for number in range(10):
    recorder.add(entry(f"racy::{number}"))
recorder.end(0)
print(recorder.lack)
"""


def test_processes_that_begin_at_the_same_moment_are_all_there(path):
    command = [sys.executable, "-c", WRITES, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment()}
    processes = [subprocess.Popen(command, **pipes) for _ in range(6)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 6
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=120)[0] for process in processes] == ["\n"] * 6
    memory = read(path)
    assert sorted(len(memory.entries[one.id]) for one in memory.sessions) == [10] * 6


def test_a_case_has_one_result_in_a_session_and_the_last_one_stays(tmp_path):
    first = entry(outcome="SILENT", again=(entry(outcome="HUNG"),))
    memory = remembered(tmp_path, (session(), [first, entry(outcome="SURVIVED")]))
    assert [(one.outcome, one.again) for one in memory.entries[1]] == [("SURVIVED", ())]


def test_text_that_is_no_unicode_or_has_no_end_is_kept_as_well_as_it_can_be(tmp_path):
    odd = entry(folder="x\udcff", sentence="s" * 1_000_000, blame="a\0b\x1b[31m")
    (found,) = remembered(tmp_path, (session(), [odd])).entries[1]
    assert found.folder == "x\\udcff" and len(found.sentence) == 2000 and found.blame == "a\0b\x1b[31m"


def test_a_session_that_is_gone_on_with_has_to_be_there(path):
    Store(path).close()
    recorder = Recorder(path, session(), joins=7)
    recorder.begin()
    assert "has no session 7" in recorder.lack
