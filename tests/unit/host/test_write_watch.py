"""Files after a failure of power, as a strict disk has them: of a process in Python, and of SQLite's own journal.

The process is watched by the kernel's filter, and killed when it says so. The tests then read its files.
"""

from __future__ import annotations

import contextlib
import os
import select
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import breakrank_agent
from breakrank.doctor import missing
from breakrank.host.disk_journal import DiskJournal
from breakrank.host.write_watch import WriteWatch
from breakrank_agent.kernel.pidfd import take
from breakrank_agent.kernel.rooted import WorkingFolder

pytestmark = pytest.mark.skipif(bool(missing(["pidfd", "seccomp"])), reason=missing(["pidfd", "seccomp"]))

BEGIN = f"""
import os, sys
sys.path.insert(0, {str(Path(breakrank_agent.__file__).parents[1])!r})
from breakrank_agent.kernel.seccomp import watch_writes
print(watch_writes(), flush=True)
sys.stdin.readline()
def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
"""
END = """
print("the power fails", flush=True)
sys.stdin.readline()
"""
#: Statements of SQL after which a row is committed; the table was there before.
COMMIT = """
import sqlite3
base = sqlite3.connect("base.db", isolation_level=None)
base.execute("PRAGMA journal_mode={mode}")
base.execute("PRAGMA synchronous={synchronous}")
base.execute("INSERT INTO rows VALUES ('new')")
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Return the working folder, with a file in it and in a folder below."""
    folder = tmp_path / "work"
    (folder / "below").mkdir(parents=True)
    (folder / "old").write_text("old")
    (folder / "below" / "old").write_text("old")
    monkeypatch.chdir(folder)
    return folder


def run(script: str, folder: Path) -> DiskJournal:
    """Run a script under a watch until it waits, and kill it; return the journal of its files."""
    journal = DiskJournal()
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + script + END], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
    ) as process:
        listener = take(process.pid, int(process.stdout.readline()))
        watch = WriteWatch(listener, WorkingFolder(0, str(folder)), journal)
        process.stdin.write(b"\n")
        process.stdin.flush()
        while process.stdout not in select.select([process.stdout, listener], [], [])[0]:
            watch.serve()
        assert process.stdout.readline() == b"the power fails\n"
        process.kill()
    watch.close()
    return journal


HELD = """
import os, signal, threading
signal.signal(signal.SIGUSR1, lambda *_: None)
def write(name):
    with open(name, "w") as file:
        file.write("new")
    # One write: `print` of two threads may put both names into one line.
    os.write(1, name.encode() + b"\\n")
thread = threading.Thread(target=write, args=("below/held",))
thread.start()
for name in ("free", "below/other"):
    write(name)
if sys.stdin.readline() == "interrupt\\n":
    signal.pthread_kill(thread.ident, signal.SIGUSR1)
thread.join()
"""


@contextlib.contextmanager
def held(folder: Path, pattern: str, most: float):
    """Yield a process whose calls are held, its watch, and a function that serves it until it has said a line."""
    with (
        subprocess.Popen(
            [sys.executable, "-c", BEGIN + HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        ) as process,
        contextlib.closing(DiskJournal()) as journal,
    ):
        listener = take(process.pid, int(process.stdout.readline()))
        watch = WriteWatch(listener, WorkingFolder(0, str(folder)), journal)
        watch.hold(pattern, most)
        process.stdin.write(b"\n")
        process.stdin.flush()

        def said() -> str:
            while process.stdout not in select.select([process.stdout, listener], [], [])[0]:
                watch.serve()
            # Unbuffered: a line that is read ahead would not be seen to be there.
            return b"".join(iter(lambda: os.read(process.stdout.fileno(), 1).strip(), b"")).decode()

        try:
            yield process, watch, said
        finally:
            process.kill()
            watch.close()


def left(script: str, folder: Path) -> dict[str, str]:
    """Return the files below a folder and their content, after a script ran there until the power failed."""
    fail_in(script, folder)
    return contents(folder)


def fail_in(script: str, folder: Path) -> None:
    """Run a script in a folder until the power fails."""
    with contextlib.closing(run(script, folder)) as journal:
        journal.roll_back()


def contents(folder: Path) -> dict[str, str]:
    """Return the files below a folder by their paths, and their content."""
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


OLD = {"old": "old", "below/old": "old"}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("open('new', 'w').write('x')", OLD, id="a new file is gone"),
        pytest.param("open('new', 'w').write('x'); sync('new')", OLD, id="its name is gone although it was synced"),
        pytest.param("open('new', 'w').write('x'); sync('.')", {**OLD, "new": ""}, id="its name alone is there"),
        pytest.param(
            "open('new', 'w').write('x'); sync('new'); sync('.')", {**OLD, "new": "x"}, id="it stays if both are synced"
        ),
        pytest.param("open('old', 'w').write('x')", OLD, id="an old file has what it had"),
        pytest.param("open('old', 'a').write('x'); sync('old')", {**OLD, "old": "oldx"}, id="or what was synced"),
        pytest.param("os.truncate('old', 1)", OLD, id="it has its length"),
        pytest.param("os.remove('old')", OLD, id="it is there again"),
        pytest.param("os.remove('old'); sync('.')", {"below/old": "old"}, id="unless its removal was synced"),
        pytest.param(
            "open('new', 'w').write('x'); sync('new'); os.replace('new', 'old')", OLD, id="a rename is undone"
        ),
        pytest.param(
            "open('new', 'w').write('x'); sync('new'); os.replace('new', 'old'); sync('.')",
            {**OLD, "old": "x"},
            id="a synced rename stays",
        ),
        pytest.param("os.rename('below', 'moved'); os.remove('moved/old')", OLD, id="a folder is back with its files"),
        pytest.param("import shutil; shutil.rmtree('below')", OLD, id="a removed tree is back"),
        pytest.param(
            "os.makedirs('a/b'); open('a/b/new', 'w').write('x'); sync('a/b/new'); sync('a/b'); sync('a'); sync('.')",
            {**OLD, "a/b/new": "x"},
            id="a new tree stays if all of it was synced",
        ),
        pytest.param(
            "os.makedirs('a/b'); open('a/b/new', 'w').write('x'); sync('a/b/new'); sync('a/b'); sync('a')",
            OLD,
            id="and is gone if its own name was not",
        ),
        pytest.param("open('new', 'w').write('x'); os.sync()", {**OLD, "new": "x"}, id="sync brings all of it to disk"),
        pytest.param(
            "import mmap; f = open('old', 'r+b'); m = mmap.mmap(f.fileno(), 3); m[:] = b'xyz'; m.flush()",
            {**OLD, "old": "xyz"},
            id="msync brings what is mapped to disk",
        ),
        pytest.param(
            "import mmap; f = open('old', 'r+b'); m = mmap.mmap(f.fileno(), 3); m[:] = b'xyz'",
            OLD,
            id="what is mapped is lost without it",
        ),
        pytest.param(
            "for n in range(5): open('new', 'w').write(str(n)); sync('new'); os.replace('new', 'old')",
            OLD,
            id="numbers of files that come again mislead nobody",
        ),
        pytest.param(
            "import subprocess; subprocess.run(['sh', '-c', 'echo x > old; sync old; echo y > new'])",
            {**OLD, "old": "x\n"},
            id="programs that it starts are seen",
        ),
    ],
)
def test_what_no_fsync_reached_is_gone(work, script, expected):
    assert left(script, work) == expected


def test_files_elsewhere_are_left_alone(work):
    outside = work.parent / "outside"
    outside.write_text("old")
    os.symlink(outside, work / "link")
    script = f"open({str(outside)!r}, 'w').write('x'); open('link', 'a').write('y')"
    assert left(script, work) == {**OLD, "link": "xy"}


def test_it_can_be_done_again(work):
    with contextlib.closing(run("open('new', 'w').write('x'); os.replace('new', 'old')", work)) as journal:
        journal.roll_back()
        (work / "late").write_text("by another process that was still alive")
        journal.roll_back()
    assert contents(work) == OLD


def test_it_is_refused_where_not_all_was_seen(work):
    with contextlib.closing(run("", work)) as journal:
        journal.lack = "openat: Too many open files"
        with pytest.raises(OSError, match=r"^not every write was seen: openat: Too many open files$"):
            journal.roll_back()


@pytest.mark.parametrize(
    ("mode", "synchronous", "stays"),
    [
        ("DELETE", "EXTRA", True),
        ("TRUNCATE", "FULL", True),
        ("WAL", "FULL", True),
        ("WAL", "NORMAL", False),
        # Its journal was removed without an fsync of the folder, comes back, and rolls the transaction back.
        ("DELETE", "FULL", False),
        ("DELETE", "OFF", False),
    ],
)
def test_a_transaction_of_sqlite_stays_as_its_manual_says(work, mode, synchronous, stays):
    """SQLite promises a committed transaction with synchronous=EXTRA (FULL, if the journal stays), and else none."""
    base = sqlite3.connect("base.db")
    base.execute("CREATE TABLE rows (value)")
    base.execute("INSERT INTO rows VALUES ('old')")
    base.commit()
    base.close()
    fail_in(COMMIT.format(mode=mode, synchronous=synchronous), work)
    again = sqlite3.connect("base.db")
    assert again.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert again.execute("SELECT value FROM rows").fetchall() == [("old",), ("new",)][: 1 + stays]


def test_a_call_on_a_path_that_matches_is_held_until_it_is_let_go(work):
    with held(work, "below/h*", float("inf")) as (process, watch, said):
        assert [said(), said()] == ["free", "below/other"]
        assert not (work / "below" / "held").exists()
        watch.release()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert said() == "below/held"
    assert (work / "below" / "held").read_text() == "new"


def test_a_call_that_a_signal_has_interrupted_is_held_again(work):
    with held(work, "below/h*", 1) as (process, watch, said):
        assert [said(), said()] == ["free", "below/other"]
        process.stdin.write(b"interrupt\n")
        process.stdin.flush()
        while len(select.select([watch], [], [], 0.0)[0]) == 0:
            pass
        watch.serve()
        assert not (work / "below" / "held").exists()
        watch.release()
        assert said() == "below/held"


def test_no_more_calls_are_held_than_asked_for(work):
    with held(work, "*", 0) as (process, _, said):
        assert sorted([said(), said(), said()]) == ["below/held", "below/other", "free"]
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait() == 0
