"""Output is read as fast as a rank prints it: a rank that waits for its reader is never taken to hang."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.ground import stepping
from support.plans import plan_of

from breakrank.conductor.attempt import AWAY_S, Attempt
from breakrank.history.output import KEEP, PIPE_BYTES, Output, open_pipe
from breakrank.host.blocked import Condition, look
from breakrank.host.blocked.threads import read_threads
from breakrank.runners.engine import Engine
from breakrank.runners.join import JoinRunner
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome

MEGABYTES = 120
#: A deadline that would be over if the ranks waited for us at 64 KB a round, as they once did.
DEADLINE_S = 20.0
#: By kind, the code that prints piece `n` in the second step. The number tells pieces of text apart.
PRINTS = {
    "lines": "os.write({to}, b''.join(b'%09d\\n' % (i + n * 6554) for i in range(6554)))",
    "one line": "os.write({to}, b'%09d ' % n * 6554)",
    "bytes": "os.write({to}, bytes(range(256)) * 256)",
}
ALL = """
if step == 1:
    for n in range({pieces}):
        {one}
    os.write({to}, b"the end")
"""


def printing(kind, to):
    pieces = MEGABYTES * 1_000_000 // 65540
    return stepping(ALL.format(pieces=pieces, one=PRINTS[kind].format(to=to), to=to))


@pytest.mark.parametrize(("kind", "to"), [("lines", 1), ("one line", 2), ("bytes", 1)])
def test_ranks_that_print_much_are_judged_by_what_they_did(bench, tmp_path, kind, to):
    (tmp_path / "train.py").write_text(printing(kind, to))
    plan = replace(plan_of(""), command=("train.py",), pin=False, steps=0, deadline_s=DEADLINE_S, oracles=("ends",))
    result = bench.run(Request(plan, where=tmp_path))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    for rank in (0, 1):
        kept = (result.folder / f"attempt-0/rank-{rank}.{'out' if to == 1 else 'err'}").read_bytes()
        assert kept.endswith(b"the end") and b" bytes are left out here]" in kept
        assert 2 * KEEP < len(kept) < 2 * KEEP + 100
        assert load_run(result.folder).history.ranks[0, rank].last_step == 4


def test_what_a_launcher_prints_is_read_as_it_comes(bench, tmp_path):
    launcher = f"import os\nfor n in range(1900): {PRINTS['lines'].format(to=1)}\nos.write(1, b'the end')\n"
    (tmp_path / "launch.py").write_text(launcher)
    command = (sys.executable, "-c", "exec(open('launch.py').read())")
    plan = replace(plan_of(""), command=command, pin=False, steps=0, ranks=0, runner="join", deadline_s=DEADLINE_S)
    result = bench.run(Request(plan, where=tmp_path))
    kept = (result.folder / "launcher.out").read_bytes()
    # The launcher starts no rank, so the run is VOID; the launcher came to its own end all the same.
    assert kept.endswith(b"the end") and "called home" in result.verdict.void[0]
    assert load_run(result.folder).history.seen("launcher")[0]["ended"] is False


def test_beginning_and_end_are_kept_however_it_is_cut_into_pieces(tmp_path):
    data = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(100_000))
    lost = len(data) - 2 * KEEP
    expected = data[:KEEP] + f"\n[{lost} bytes are left out here]\n".encode() + data[-KEEP:]
    for size in (7777, 65536, KEEP, len(data)):
        output = Output(tmp_path / "out")
        for at in range(0, len(data), size):
            output.take(data[at : at + size])
        output.close()
        assert (tmp_path / "out").read_bytes() == expected


@pytest.mark.parametrize("size", [0, 1, KEEP, KEEP + 1, 2 * KEEP])
def test_what_fits_is_kept_as_it_is(tmp_path, size):
    data = os.urandom(size)
    output = Output(tmp_path / "out")
    for at in range(0, size, 100_001):
        output.take(data[at : at + 100_001])
    output.close()
    assert (tmp_path / "out").read_bytes() == data


def test_one_pipe_that_is_filled_for_ever_does_not_hold_up_the_others(tmp_path):
    reader, writer = open_pipe()
    stop = threading.Event()

    def fill():
        while not stop.is_set():
            os.write(writer, b"x" * 65536)

    filler = threading.Thread(target=fill)
    filler.start()
    output = Output(tmp_path / "out")
    assert all(output.drain(reader) for _ in range(20))
    stop.set()
    while filler.is_alive():
        output.drain(reader)
    os.close(writer)
    assert not output.drain(reader)
    os.close(reader)


def test_a_rank_that_waits_for_its_pipe_to_be_read_is_no_proof_of_a_hang():
    reader, writer = open_pipe()
    code = "import os\nwhile True: os.write(1, b'x' * 65536)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=writer) as process:
        # Once the pipe is full, the process waits for its reader.
        while not _waits(process.pid):
            assert process.poll() is None
        assert {look(process.pid, call).condition for call in ("", "message", "setup")} == {Condition.MOVES}
        process.kill()
    os.close(writer)
    assert len(os.read(reader, 2 * PIPE_BYTES)) > 0
    os.close(reader)


def _waits(pid):
    """Return whether a process of one thread that does nothing but write sleeps."""
    return next(read_threads(pid)).state == "S"


def test_time_in_which_nobody_heard_the_ranks_is_not_counted_against_them(monkeypatch):
    attempt = Attempt.__new__(Attempt)
    clock = [100.0]
    monkeypatch.setattr("breakrank.conductor.attempt.time.monotonic", lambda: clock[0])
    attempt._group = SimpleNamespace(moved=95.0)
    attempt._heard, attempt._told_of = 100.0, 95.0
    clock[0] += AWAY_S / 2
    attempt._excuse()
    assert attempt._group.moved == 95.0
    clock[0] += 60.0
    attempt._excuse()
    assert attempt._group.moved == attempt._told_of == 155.0


def test_a_launchers_sources_wake_whoever_waits_when_it_prints(tmp_path):
    import select

    runner = JoinRunner.__new__(JoinRunner)
    reader, writer = open_pipe()
    runner._engine = Engine()
    runner._sources, runner._outputs = select.epoll(), {reader: Output(tmp_path / "launcher.out")}
    runner._sources.register(reader, select.EPOLLIN)
    os.write(writer, b"a line\n")
    assert select.select(runner.sources(), [], [], 0)[0]
    runner._read_outputs()
    assert not select.select(runner.sources(), [], [], 0)[0]
    os.close(writer)
    assert select.select(runner.sources(), [], [], 0)[0]
    runner._read_outputs()
    # The end of the output is reported once, and wakes no thread again and again.
    assert not select.select(runner.sources(), [], [], 0)[0]
    os.close(reader)
