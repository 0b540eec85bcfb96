"""Each line of a rank's output has the time at which it was read, however the pieces fall, and also at a long end."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from breakrank.files.bounded import Folder
from breakrank.history import output_times
from breakrank.history.output import KEEP, Output
from breakrank.history.output_times import SUFFIX, read_lines


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that stands until it is set."""
    clock = SimpleNamespace(now=1.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(output_times, "time", clock)
    return clock


def printed(tmp_path, clock, pieces, most=1000):
    """Return the lines with their times of pieces that were read one after the other, each at its time."""
    output = Output(tmp_path / "rank-0.out")
    for when, data in pieces:
        clock.now = when
        output.take(data)
    output.close()
    return [(line.time, line.text) for line in read_lines(Folder(tmp_path), "rank-0.out", most)]


def test_a_line_has_the_time_of_the_piece_that_it_begins_in(tmp_path, clock):
    pieces = [(1.0, b"one\ntw"), (2.0, b"o, long"), (3.0, b" and done\n"), (4.0, b"three\nfour"), (5.0, b"\n")]
    expected = [(1.0, "one"), (1.0, "two, long and done"), (4.0, "three"), (4.0, "four")]
    assert printed(tmp_path, clock, pieces) == expected


def test_a_rank_that_prints_nothing_has_no_file_of_times(tmp_path, clock):
    assert printed(tmp_path, clock, []) == []
    assert not (tmp_path / f"rank-0.out{SUFFIX}").exists()


def test_lines_of_the_end_that_is_kept_have_their_own_times(tmp_path, clock):
    first, middle, last = b"a" * (KEEP - 1) + b"\n", b"b" * KEEP + b"\n" + b"c" * KEEP + b"\n", b"d" * 99 + b"\ne\n"
    lines = printed(tmp_path, clock, [(1.0, first), (2.0, middle), (3.0, last), (4.0, b"f\n")])
    assert [(when, text[0]) for when, text in lines] == [
        (1.0, "a"),
        (1.0, "["),
        # Its beginning is left out: it is a line that arrived after the beginning, and before the next one.
        (2.0, "c"),
        (3.0, "d"),
        (3.0, "e"),
        (4.0, "f"),
    ]


def test_of_many_lines_the_last_ones_are_read(tmp_path, clock):
    pieces = [(1.0 + number, f"{number}\n".encode()) for number in range(10)]
    assert printed(tmp_path, clock, pieces, most=2) == [(9.0, "8"), (10.0, "9")]


@pytest.mark.parametrize("damage", [b"nonsense\n", b"[1]\n", b'["a", 1.0]\n', b"[-1, 1.0]\n", b"[9, NaN]\n", b"\xff\n"])
def test_a_damaged_file_of_times_ends_where_it_is_damaged(tmp_path, clock, damage):
    printed(tmp_path, clock, [(1.0, b"one\n"), (2.0, b"two\n")])
    path = tmp_path / f"rank-0.out{SUFFIX}"
    first, *_ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage + b"[4, 7.0]\n")
    assert [line.time for line in read_lines(Folder(tmp_path), "rank-0.out", 10)] == [1.0, 1.0]
