"""A full log makes its writer wait for its reader, but not for a reader that is gone."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap

import pytest

from breakrank_agent.agent.channel import Channel
from breakrank_agent.protocol.log import Damaged, HistoryError, LogReader, LogWriter, create_log

LIMIT_S = 60.0


@pytest.fixture
def path(tmp_path):
    create_log(str(tmp_path / "rank-0.log"), 256)
    return str(tmp_path / "rank-0.log")


def test_a_writer_whose_reader_is_gone_drops_and_says_so_once(path):
    ours, theirs = socket.socketpair()
    writer, channel, forsaken = LogWriter(path), Channel(theirs.detach()), []
    writer.gone, writer.forsaken = lambda: channel.gone, lambda: forsaken.append(1)
    assert not channel.gone
    # Bytes that were sent before do not hide that the other end is closed.
    ours.sendall(b"{}\n" * 5000)
    ours.close()
    for _ in range(10):
        writer.write(b"x" * 100)
    assert forsaken == [1]
    reader = LogReader(path)
    assert (reader.drain(), reader.dropped) == ([b"x" * 100] * 2, 8)
    assert channel.ask({"leaves": True}) == {}


def test_a_guest_waits_for_a_reader_that_takes_nothing_once_and_writes_on_when_it_takes_again(path):
    writer, reader = LogWriter(path), LogReader(path)
    writer.patience_s = 0.05
    for _ in range(4):
        writer.write(b"x" * 100)
    assert reader.drain() == [b"x" * 100] * 2
    assert reader.dropped == 2
    writer.write(b"later")
    assert (reader.drain(), reader.dropped) == ([b"later"], 2)


def test_a_guest_waits_no_longer_than_its_limit_for_an_answer():
    ours, theirs = socket.socketpair()
    channel = Channel(theirs.detach(), 0.05)
    assert channel.ask({"leaves": True}) == {}
    assert not channel.gone
    ours.close()


def test_a_tail_that_is_half_written_is_not_taken_for_room(path):
    writer, reader = LogWriter(path), LogReader(path)
    writer.patience_s = 0.05
    for _ in range(2):
        writer.write(b"x" * 100)
    with open(path, "r+b") as file:
        file.seek(24)
        file.write(struct.pack("<Q", 208))
    writer.write(b"y" * 100)
    assert (reader.drain(), reader.dropped) == ([b"x" * 100] * 2, 1)


def test_a_file_laid_in_a_logs_place_is_not_followed_nor_waited_for(tmp_path, path):
    (tmp_path / "link.log").symlink_to(path)
    with pytest.raises(OSError):
        LogReader(str(tmp_path / "link.log"))
    os.mkfifo(tmp_path / "fifo.log")
    with pytest.raises(HistoryError):
        LogReader(str(tmp_path / "fifo.log"))


def test_a_log_that_is_cut_short_under_its_reader_does_not_end_it(path):
    writer, reader = LogWriter(path), LogReader(path)
    writer.write(b"x" * 100)
    os.truncate(path, 100)
    with pytest.raises(Damaged, match="its log was cut short"):
        reader.drain()
    os.truncate(path, 0)
    with pytest.raises(Damaged, match="its log was cut short"):
        reader.drain()


def test_a_rank_that_dies_when_nobody_hears_it_is_not_left_standing(tmp_path):
    """The kernel stops a dying rank at its first words for a listener; if the listener is gone, it does not."""
    script = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from breakrank.host.crash_dump import CrashDump
        words = CrashDump(Path(sys.argv[1]), Path(sys.argv[1] + ".crash"))
        words.stops(int(sys.argv[2]))
        print("listens", flush=True)
        sys.stdin.read()
        """
    )
    begins = "import sys, faulthandler; input(); f = open(sys.argv[1], 'r+b', 0); faulthandler.enable(f)"
    fifo = str(tmp_path / "rank-0.words")
    waits = [sys.executable, "-c", f"{begins}; input(); faulthandler._sigsegv()", fifo]
    with subprocess.Popen(waits, stdin=subprocess.PIPE) as rank:
        listens = [sys.executable, "-c", script, fifo, str(rank.pid)]
        with subprocess.Popen(listens, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listener:
            assert listener.stdout.readline() == b"listens\n"
            rank.stdin.write(b"\n")
            rank.stdin.flush()
            listener.kill()
            listener.wait()
        rank.stdin.write(b"\n")
        rank.stdin.flush()
        assert rank.wait(LIMIT_S) == -signal.SIGSEGV
