"""Strangers on our sockets are refused in one line, whatever they say, and sound callers are served."""

from __future__ import annotations

import socket

import pytest
from support.conversations import TALKS, hold

from breakrank.runners import join_socket
from breakrank.runners.join_socket import MOST_CALLERS, Home, parse_hello
from breakrank_agent.protocol.checked import DEPTH, Unfit, check, nests_deeper, parse, whole

#: The start of a supervisor takes as long as a hundred conversations with any other party.
TRIES = {"supervisor": 12}


@pytest.mark.parametrize("kind", TALKS)
def test_hostile_conversations_come_to_nothing(kind):
    assert list(hold(kind, 0, TRIES.get(kind, 60))) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"[]", "it is no object"),
        (b"\xff{}", "it is no JSON"),
        (b'{"rank":-1,"world":2,"attempt":null,"store":0}', "its 'rank' cannot be -1"),
        (b'{"rank":2,"world":2,"attempt":null,"store":0}', "its 'rank' cannot be 2"),
        (b'{"rank":true,"world":2,"attempt":null,"store":0}', "its 'rank' cannot be True"),
        (b'{"rank":0,"world":1000000000,"attempt":null,"store":0}', "its 'world' cannot be 1000000000"),
        (b'{"rank":0,"world":2,"attempt":-1,"store":0}', "its 'attempt' cannot be -1"),
        (b'{"rank":0,"world":2,"attempt":1000000000,"store":0}', "its 'attempt' cannot be 1000000000"),
        (b'{"rank":0,"world":2,"attempt":null,"store":"x"}', "its 'store' cannot be 'x'"),
        (b'{"rank":0,"world":2,"attempt":null}', "it has no 'store'"),
        (b'{"rank":' * 40 + b"}" * 40, f"it nests deeper than {DEPTH} levels"),
        (b" " * 5000, "it has 5000 bytes, which is more than 4096"),
    ],
)
def test_a_caller_that_cannot_be_a_rank_is_refused_with_the_reason(said, why):
    with pytest.raises(Unfit) as refused:
        parse_hello(said)
    assert str(refused.value) == why


def test_brackets_in_texts_do_not_count_and_a_text_that_never_ends_costs_no_time():
    assert not nests_deeper(b'{"a":"' + b"[" * 1000 + b'"}', DEPTH)
    assert parse(b'{"a":"\\"' + b"[" * 1000 + b'"}')["a"] == '"' + "[" * 1000
    assert not nests_deeper(b"[" * (DEPTH - 1) + b'\\"' * (1 << 20) + b"[[", DEPTH)
    assert nests_deeper(b"[]" * 100 + b"[" * (DEPTH + 1), DEPTH)
    with pytest.raises(Unfit):
        check({"a": 1.0}, {"a": whole()})


def calls(at: Home) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.connect("\0" + at.address)
    return line


def test_who_says_nothing_is_dropped_and_there_is_room_for_a_bounded_number(monkeypatch):
    at = Home()
    at.open()
    silent = []
    while len(silent) < MOST_CALLERS:
        silent.append(calls(at))
        assert at.callers() == []
    late = calls(at)
    late.sendall(at.secret.encode() + b'{"rank":0,"world":1,"attempt":null,"store":0}\n')
    assert at.callers() == [], "it waits in the kernel until there is room"
    monkeypatch.setattr(join_socket, "SAYS_WITHIN_S", 0.0)
    assert at.callers() == []
    assert all(line.recv(1) == b"" for line in silent)
    monkeypatch.undo()
    (caller,) = at.callers()
    assert caller.hello["rank"] == 0
    at.close()
    for line in (*silent, late, caller.line):
        line.close()


def test_a_secret_that_is_not_ours_is_hung_up_on_before_anything_is_parsed(monkeypatch):
    def parsed(data):
        raise AssertionError("it was parsed")

    monkeypatch.setattr(join_socket, "parse_hello", parsed)
    at = Home()
    at.open()
    line = calls(at)
    line.sendall(b"x" * 32 + b'{"rank":0}\n')
    assert at.callers() == [] and line.recv(1) == b""
    at.close()
    line.close()
