"""The epilogs of a step are let go, but for the last one, which waits for the deputy to leave."""

from __future__ import annotations

import os
import secrets
import socket

import pytest

from breakrank.deputy.leaving import GO, SUFFIX, Leaving


@pytest.fixture
def home():
    return f"breakrank-test-{secrets.token_hex(6)}"


def call(home: str, number: int) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(20)
    line.connect(f"\0{home}{SUFFIX}")
    line.sendall(f"{number}".encode())
    return line


def test_all_epilogs_but_the_last_one_go(home):
    leaving = Leaving(home, tasks=2)
    with call(home, 0) as first, call(home, 1) as last:
        leaving.look()
        assert leaving.due and leaving.callers == {os.getpid()}
        assert first.recv(8) == GO
        last.settimeout(0)
        with pytest.raises(BlockingIOError):
            last.recv(8)


def test_an_epilog_that_calls_again_is_no_other_task(home):
    leaving = Leaving(home, tasks=2)
    with call(home, 0), call(home, 0):
        leaving.look()
        assert not leaving.due


def test_an_address_that_is_taken_is_refused(home):
    with_it = Leaving(home, tasks=1)
    with pytest.raises(OSError, match="in use"):
        Leaving(home, tasks=1)
    assert not with_it.due
