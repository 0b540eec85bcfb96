"""Ranks that write over the records of their agent: rank 1 does, rank 0 stays until it is ended."""

from __future__ import annotations

import os
import struct
import time

from breakrank_agent import step, tell
from breakrank_agent.agent import agent as probe
from breakrank_agent.start import boot

RANK = int(os.environ["RANK"])
_HEAD, _HEADER = 2, 64


def lie(how):
    """Make a step; as rank 1, do it, go on, and return; as rank 0, stay."""
    step()
    if RANK == 0:
        while True:
            time.sleep(1)
    how(probe._agent)
    for number in range(100):
        tell("goes on", number=number)
        step()
    time.sleep(1000)


def says_head(place):
    """Set the header to so many written bytes, when all records have been read."""

    def how(agent):
        time.sleep(0.2)
        agent.recorder._log.words[_HEAD] = place
        time.sleep(1000)

    lie(how)


def head_back():
    """Set the header to fewer bytes than were written."""
    says_head(8)


def head_ahead():
    """Set the header to more bytes than there is room for."""
    says_head(1 << 40)


def magic():
    """Write over the first bytes of the log."""

    def how(agent):
        agent.recorder._log._map[:8] = b"\0" * 8

    lie(how)


def raw(data):
    """Write bytes where a record belongs."""

    def how(agent):
        log = agent.recorder._log
        padded = data + bytes(-len(data) % 8)
        log._map[_HEADER + log._head : _HEADER + log._head + len(padded)] = padded
        log._head += len(padded)
        log.words[_HEAD] = log._head

    lie(how)


def huge_length():
    """Write a record that is longer than the log."""
    raw(struct.pack("<I", 0xFFFFFFF0))


def no_length():
    """Write records of no bytes."""
    raw(bytes(4096))


def no_such_facts():
    """Write a point whose facts are not in the table."""
    raw(struct.pack("<IHHQQQQd", 44, 1, 999, 0, 0, 0, 0, 0.0))


def short_mark():
    """Write half of a point."""
    raw(struct.pack("<IH", 2, 1))


def no_object():
    """Write a list as an event."""
    lie(lambda agent: agent.recorder._log.write(b"[]"))


def deep():
    """Write an event that nests deeper than a reader allows."""
    lie(lambda agent: agent.recorder._log.write(b'{"kind":' + b"[" * 30_000 + b"]" * 30_000 + b"}"))


def wrong_types():
    """Write an event of which the step is a text."""
    lie(
        lambda agent: agent.recorder._log.write(
            b'{"kind":"point","n":0,"seq":"main","step":"one","t":0,"point":"step","visit":1}'
        )
    )


def no_sense():
    """Write a well-formed event that lacks a field without which it makes no sense."""
    lie(lambda agent: agent.recorder._log.write(b'{"kind":"rendezvous","n":0,"seq":"main","step":1,"t":0}'))


def strange_child():
    """Say that a child was started whose log lies elsewhere."""
    event = b'{"kind":"child","n":0,"seq":"main","step":1,"t":0,"name":"../../../etc/passwd"}'
    lie(lambda agent: agent.recorder._log.write(event))


def cut_short():
    """Truncate the log under the processes that have mapped it."""

    def how(agent):
        time.sleep(0.2)
        os.truncate(agent.forks.log_path, 0)
        time.sleep(1000)

    lie(how)


def chatters():
    """Say garbage on the line."""
    lie(lambda agent: agent.channel._line.sendall(b"\xff{]\n"))


def chatters_on():
    """Say something that never ends on the line."""

    def how(agent):
        try:
            while True:
                agent.channel._line.sendall(b"x" * 65536)
        except OSError:
            time.sleep(1000)

    lie(how)


def parks():
    """Wait for a strike that is not in the plan."""
    lie(lambda agent: agent.channel.ask({"park": 99}))


def last_words():
    """Write a crash dump that never ends."""

    def how(agent):
        while True:
            os.write(boot._words, b"x" * 1024)

    lie(how)
