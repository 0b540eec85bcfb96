"""Connections are found by both of their ends, and told apart from all others."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from breakrank.witnesses import Evidence
from breakrank.witnesses.network import LinkLost, Links
from breakrank_agent.faults.network import DropLink
from breakrank_agent.kernel.pidfd import duplicate
from breakrank_agent.kernel.sockets import Address, Link, established, listed, undelivered

V4_OVER_V6 = "::ffff:127.0.0.1"


@pytest.fixture
def peer() -> Iterator[Callable[..., tuple[int, int, int]]]:
    """Connect to a process of its own; return its pid, the port it listens on, and our descriptor."""
    with contextlib.ExitStack() as stack:

        def connect(to: str = "127.0.0.1", within: int = socket.AF_INET) -> tuple[int, int, int]:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ours = stack.enter_context(socket.socket(within))
            ours.connect((to, server.getsockname()[1]))
            theirs, _ = server.accept()
            waits = [sys.executable, "-I", "-S", "-c", "input()"]
            holder = subprocess.Popen(waits, pass_fds=[theirs.fileno()], stdin=subprocess.PIPE)
            theirs.close()
            stack.callback(holder.communicate, b"\n")
            return holder.pid, server.getsockname()[1], ours.fileno()

        yield connect


def test_a_connection_is_found_from_each_of_its_ends(peer):
    pid, port, descriptor = peer()
    mine, theirs = established(os.getpid(), pid), established(pid, os.getpid())
    assert list(mine.values()) == [descriptor]
    assert [one.remote.port for one in mine] == [port] == [one.local.port for one in theirs]
    assert [Link(one.remote, one.local) for one in mine] == list(theirs)


def test_an_end_of_ipv6_and_one_of_ipv4_are_one_connection(peer):
    pid, _, descriptor = peer(V4_OVER_V6, socket.AF_INET6)
    assert list(established(os.getpid(), pid).values()) == [descriptor]


def test_connections_of_a_port_that_is_left_alone_are_not_found(peer):
    pid, port, _ = peer()
    assert established(os.getpid(), pid, but=port) == {} == established(pid, os.getpid(), but=port)


def test_what_a_peer_has_no_room_for_is_undelivered_by_the_one_who_sends(peer):
    pid, port, descriptor = peer()
    assert undelivered([os.getpid(), pid]) == {os.getpid(): [], pid: []}
    with socket.socket(fileno=os.dup(descriptor)) as ours:
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while ours.send(bytes(1 << 20)):
                pass
    found = undelivered([os.getpid(), pid])
    assert [entry.link.remote.port for entry in found[os.getpid()]] == [port]
    assert found[pid] == []


def test_a_connection_to_another_process_is_not_found(peer):
    first, _, one = peer()
    second, _, other = peer()
    assert list(established(os.getpid(), first).values()) == [one]
    assert list(established(os.getpid(), second).values()) == [other]
    assert established(first, second) == {}


def test_a_process_that_is_gone_has_none():
    gone = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    gone.wait()
    assert established(gone.pid, os.getpid()) == {} == established(os.getpid(), gone.pid)
    assert list(listed(gone.pid)) == []


def test_a_socket_shut_down_through_a_duplicate_is_cut_for_its_owner(peer):
    pid, _, descriptor = peer()
    (end,) = established(pid, os.getpid()).values()
    with duplicate(pid, end) as theirs:
        theirs.shutdown(socket.SHUT_RDWR)
    assert established(os.getpid(), pid) == {}
    with socket.socket(fileno=os.dup(descriptor)) as ours:
        assert ours.recv(1) == b""


def test_a_descriptor_that_is_none_is_an_error():
    with pytest.raises(OSError, match="Bad file descriptor"):
        duplicate(os.getpid(), 9999)


ONE = Link(Address("0100007F", 29501), Address("0100007F", 40000))
BACK = Link(ONE.remote, ONE.local)


def seen(states: dict[Link, str]) -> str | None:
    """Return the witness's judgement on one connection that was established, and has these states now."""
    before = Links(frozenset([ONE]), {ONE: "ESTABLISHED", BACK: "ESTABLISHED"})
    return LinkLost().judge(DropLink(), Evidence(before=before, after=Links(frozenset(), states)))


@pytest.mark.parametrize("states", [
    {ONE: "CLOSE_WAIT", BACK: "FIN_WAIT2"},
    {BACK: "TIME_WAIT"},
    {},
])  # fmt: skip
def test_a_cut_is_seen_by_what_is_left_of_the_connection(states):
    assert "1 established before, now" in (seen(states) or "")


@pytest.mark.parametrize("states", [
    {ONE: "ESTABLISHED", BACK: "ESTABLISHED"},
    {ONE: "FIN_WAIT2", BACK: "CLOSE_WAIT"},
    {ONE: "TIME_WAIT"},
])  # fmt: skip
def test_a_connection_that_stands_or_that_the_peer_closed_is_no_cut(states):
    assert seen(states) is None


def test_where_there_was_no_connection_there_is_no_cut():
    nothing = Links(frozenset(), {})
    assert LinkLost().judge(DropLink(), Evidence(before=nothing, after=nothing)) is None
    assert LinkLost().judge(DropLink(), Evidence()) is None
