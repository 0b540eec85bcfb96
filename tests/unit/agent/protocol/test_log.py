"""The ring that a rank records into loses nothing, if its writer or its reader is slow or dies."""

from __future__ import annotations

import json
import os
import signal
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from breakrank.files.bounded import Folder
from breakrank.history.rank_file import read_chronicle
from breakrank_agent.protocol.log import (
    HEADER_SIZE,
    NUMBER,
    RECORD_LIMIT,
    TABLE_SIZE,
    HistoryError,
    LogReader,
    LogWriter,
    create_log,
    encode,
)


def ring(folder: Path, size: int = 256) -> str:
    """Create a log and return its path."""
    path = str(folder / "rank-0.log")
    create_log(path, size)
    return path


def in_another_process(do: Callable[[], None]) -> int:
    """Fork a process that calls `do` and leaves with exit code 0, or 1 if that raises; return its pid."""
    pid = os.fork()
    if pid == 0:
        _leave_after(do)
    return pid


def _leave_after(do: Callable[[], None]) -> NoReturn:
    try:
        do()
    except BaseException:
        os._exit(1)
    os._exit(0)


def record(number: int) -> bytes:
    """Return a record whose length varies with its number and whose bytes tell it."""
    return f"{number}:".encode() + bytes([number % 251]) * (number % 37)


def test_a_record_is_read_once_and_as_it_was_written(tmp_path: Path) -> None:
    path = ring(tmp_path)
    writer, reader = LogWriter(path), LogReader(path)
    writer.write(b"one")
    writer.write(b"")
    assert reader.drain() == [b"one", b""]
    assert reader.drain() == []


def test_records_wrap_around_the_end_of_the_ring(tmp_path: Path) -> None:
    path = ring(tmp_path, size=104)
    writer, reader = LogWriter(path), LogReader(path)
    for number in range(500):
        writer.write(record(number))
        assert reader.drain() == [record(number)]


def test_the_ring_can_be_filled_to_its_last_byte(tmp_path: Path) -> None:
    path = ring(tmp_path, size=64)
    writer, reader = LogWriter(path), LogReader(path)
    writer.write(b"x" * 28)
    writer.write(b"y" * 28)
    assert reader.drain() == [b"x" * 28, b"y" * 28]


def test_a_full_ring_makes_its_writer_wait_and_loses_nothing(tmp_path: Path) -> None:
    """Goal: more is written than fits, so that the writer has to wait for a reader in another process many times."""
    path, count = ring(tmp_path, size=128), 3000

    def write_all() -> None:
        writer = LogWriter(path)
        for number in range(count):
            writer.write(record(number))

    pid = in_another_process(write_all)
    reader = LogReader(path)
    read: list[bytes] = []
    while len(read) < count:
        read += reader.drain()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert read == [record(number) for number in range(count)]
    assert reader.dropped == 0


def test_what_was_written_is_readable_after_the_writer_was_killed(tmp_path: Path) -> None:
    path = ring(tmp_path, size=4096)

    def write_and_be_killed() -> None:
        writer = LogWriter(path)
        for number in range(20):
            writer.write(record(number))
        os.kill(os.getpid(), signal.SIGKILL)

    pid = in_another_process(write_and_be_killed)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert LogReader(path).drain() == [record(number) for number in range(20)]


def test_a_second_reader_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    path = ring(tmp_path)
    writer = LogWriter(path)
    writer.write(b"one")
    LogReader(path).drain()
    writer.write(b"two")
    assert LogReader(path).drain() == [b"two"]


def test_a_record_larger_than_the_ring_is_dropped_and_counted(tmp_path: Path) -> None:
    path = ring(tmp_path, size=64)
    writer, reader = LogWriter(path), LogReader(path)
    writer.write(b"x" * 61)
    writer.write(b"fits")
    assert reader.drain() == [b"fits"]
    assert reader.dropped == 1


def test_an_oversized_event_loses_its_longest_text_and_says_which(tmp_path: Path) -> None:
    event = {
        "kind": "report",
        "n": 1,
        "seq": "main",
        "step": 3,
        "t": 0.5,
        "code": 1,
        "frames": [],
        "type": "ValueError",
    }
    line = encode({**event, "type": "ValueError", "message": "x" * (RECORD_LIMIT + 1)})
    (tmp_path / "rank-0.jsonl").write_bytes(line + b"\n")
    (event,) = read_chronicle(Folder(tmp_path), "rank-0.jsonl")
    assert len(line) <= RECORD_LIMIT
    assert (event["step"], event["type"], event["message"], event["cut"]) == (3, "ValueError", "(cut)", "message")


def test_the_blocks_of_a_log_are_reserved_when_it_is_created(tmp_path: Path) -> None:
    size = 1 << 16
    assert os.stat(ring(tmp_path, size)).st_blocks * 512 >= HEADER_SIZE + size


def test_a_log_is_never_laid_over_another(tmp_path: Path) -> None:
    path = ring(tmp_path)
    with pytest.raises(FileExistsError):
        create_log(path)


def test_a_writer_is_told_the_step_after_which_it_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    create_log(path)
    writer, reader = LogWriter(path), LogReader(path)
    assert writer.last_step() == 0
    reader.end_after(12)
    assert writer.last_step() == 12
    writer.write(b"{}")
    assert reader.drain() == [b"{}"]


def test_a_file_that_is_no_log_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"\0" * 200)
    with pytest.raises(HistoryError, match=r"other is no log of version 5"):
        LogReader(str(path))


def test_a_history_file_leaves_out_a_last_line_that_a_crash_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    with path.open("wb") as file:
        file.write(encode({"kind": "made up", "step": 1}) + b"\n")
        file.write(b'{"kind": "mad')
    assert list(read_chronicle(Folder(tmp_path), path.name)) == [{"kind": "made up", "step": 1}]


@pytest.mark.parametrize(("line", "says"), [(b"{oops}\n", "line 2 is damaged"), (b"[1]\n", "line 2 is no event")])
def test_a_damaged_history_file_is_named_with_its_line(tmp_path: Path, line: bytes, says: str) -> None:
    path = tmp_path / "rank-0.jsonl"
    path.write_bytes(b'{"kind": "made up"}\n' + line)
    with pytest.raises(HistoryError, match=says):
        list(read_chronicle(Folder(tmp_path), path.name))


def test_a_mark_is_read_as_the_event_that_it_stands_for_and_its_facts_are_kept_once(tmp_path: Path) -> None:
    path = ring(tmp_path, size=144)
    writer, reader = LogWriter(path), LogReader(path)
    for number in range(1, 9):
        assert writer.mark("collective", ',"op":"allreduce_","c":', number, 3, 2)
        (event,) = map(json.loads, reader.drain())
        assert event.pop("t") >= 0
        told = {"kind": "point", "n": number - 1, "seq": "main", "step": 3, "point": "collective", "visit": 2}
        assert event == {**told, "op": "allreduce_", "c": number}
        assert list(event) == [*told, "op", "c"]
    assert writer.mark("done", ',"group":"0"', 0, 3, 0)
    (event,) = map(json.loads, LogReader(path).drain())
    assert event == {"kind": "done", "n": 8, "seq": "main", "step": 3, "t": event["t"], "group": "0"}


def test_an_access_is_read_as_the_event_that_it_stands_for_and_its_facts_are_kept_once(tmp_path: Path) -> None:
    path = ring(tmp_path, size=128)
    writer, reader = LogWriter(path), LogReader(path)
    facts = 'child-1/thread-2 ,"op":"add_","lo":0'
    for n, pick in enumerate((None, 0, 7, 1 << 40)):
        assert writer.access(facts, n, 3, pick)
        (event,) = map(json.loads, reader.drain())
        told = {"kind": "access", "n": n, "seq": "child-1/thread-2", "step": 3, "t": event["t"], "op": "add_", "lo": 0}
        assert event == {**told, **({} if pick is None else {"pick": pick})}
    assert not writer.access("main " + "x" * TABLE_SIZE, 0, 1, None), "there is no room for the facts"


def test_the_facts_of_accesses_leave_room_for_those_of_points(tmp_path: Path) -> None:
    writer = LogWriter(ring(tmp_path, size=1 << 20))
    assert not all(writer.access(f"main {number:1000}", number, 1, None) for number in range(TABLE_SIZE // 1000))
    assert writer.access(f"main {0:1000}", 0, 1, None), "what is there already goes on"
    assert writer.mark("collective", ',"op":"' + "x" * (TABLE_SIZE // 4) + '","c":', 1, 1, 1)


def test_a_list_of_numbers_is_read_as_the_payload_that_it_stands_for(tmp_path: Path) -> None:
    path = ring(tmp_path, size=512)
    writer, reader = LogWriter(path), LogReader(path)
    for n, numbers in enumerate(([], [7], [0, -1, 2**31 - 1], list(range(64)))):
        assert writer.numbers(',"of":"load","indices":', array(NUMBER, numbers), 5)
        (event,) = map(json.loads, reader.drain())
        told = {"kind": "payload", "n": n, "seq": "main", "step": 5, "t": event["t"], "of": "load"}
        assert event == {**told, "indices": numbers}
        writer.write(b"{}")
        assert reader.drain() == [b"{}"]


def test_what_does_not_fit_into_a_mark_is_left_to_be_written_in_full(tmp_path: Path) -> None:
    path = ring(tmp_path, size=72)
    writer, reader = LogWriter(path), LogReader(path)
    assert writer.mark("load", "", 0, 1, 1)
    assert not writer.mark("load", "", 0, 1, 1), "the ring is full"
    reader.drain()
    assert not writer.mark("load", "", 0, 1, 1), "it would reach over the end of the ring"
    assert not writer.numbers("", array(NUMBER, range(8)), 1), "that would, too"
    writer.write(b"x" * 20)
    reader.drain()
    assert not writer.mark("load", "x" * TABLE_SIZE, 0, 1, 1), "there is no room for the facts"
    assert writer.mark("load", ',"few":1', 0, 1, 1)
    (event,) = map(json.loads, reader.drain())
    assert (event["n"], event["few"]) == (1, 1)
