"""The isolation of ranks: names are answered, packets are counted, addresses are written as the kernel lists them."""

from __future__ import annotations

import os
import socket
import struct

import pytest

from breakrank.conductor.network_paths import explain_closed
from breakrank.runners.bridge import answer_name
from breakrank_agent.faults import DelayPackets, LosePackets
from breakrank_agent.kernel import sockets
from breakrank_agent.protocol.trigger import PlanError

KNOWN = {"rank-0": "10.77.0.1"}


def question(name: str, kind: int = 1) -> bytes:
    """Return a question as a resolver asks it (RFC 1035, 4.1)."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 4711, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


@pytest.mark.parametrize(("name", "kind", "code", "answers"), [
    ("rank-0", 1, 0, 1), ("RANK-0", 1, 0, 1), ("rank-0", 28, 0, 0), ("rank-9", 1, 3, 0), ("rank-0.example", 1, 3, 0),
])  # fmt: skip
def test_a_name_is_answered_by_its_address_or_not_at_all(name, kind, code, answers):
    answer = answer_name(question(name, kind), KNOWN)
    number, flags, _, count, _, _ = struct.unpack("!6H", answer[:12])
    assert (number, flags & 0x8000, flags & 15, count) == (4711, 0x8000, code, answers)
    assert answer.endswith(socket.inet_aton("10.77.0.1")) == bool(answers)


@pytest.mark.parametrize("torn", [b"", b"\0", question("rank-0")[:15], b"\xff" * 40])
def test_what_is_no_question_does_no_harm(torn):
    assert isinstance(answer_name(torn, KNOWN), bytes)


def test_which_packets_are_lost_is_drawn_from_the_seed():
    lost = {seed: LosePackets(share=0.25, seed=seed).lost for seed in (0, 1)}
    assert lost[0] == LosePackets(share=0.25, seed=0).lost != lost[1]
    assert [len(places) for places in lost.values()] == [16, 16]
    assert LosePackets(every=5).lost == (4,)


@pytest.mark.parametrize("share", [0.0, 0.001, 1.0])
def test_a_share_that_loses_nothing_or_everything_is_refused(share):
    with pytest.raises(PlanError, match="loses no packet or all of them"):
        LosePackets(share=share)


@pytest.mark.parametrize(("ms", "jitter_ms"), [(0.0, 0.0), (10.0, 10.0), (900.0, 100.0)])
def test_a_delay_that_is_none_or_too_long_is_refused(ms, jitter_ms):
    with pytest.raises(PlanError, match="cannot be had"):
        DelayPackets(ms=ms, jitter_ms=jitter_ms)


def test_an_address_is_spelt_as_the_kernel_lists_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = {e.link.local for e in sockets.listed(os.getpid()) if e.state == "LISTEN"}
        assert (sockets.as_listed("127.0.0.1"), server.getsockname()[1]) in listening


def test_closed_ways_lie_with_the_rank_that_all_of_them_share():
    assert explain_closed({(0, 1), (1, 0)})[0] == ()
    assert explain_closed({(0, 1), (1, 0), (2, 1), (1, 2)})[0] == (1,)
    assert explain_closed({(0, 1), (2, 3)})[0] == ()
    assert explain_closed({(0, 1), (1, 0), (2, 1), (1, 2)})[1] == "nothing gets to rank 1, nor from it"
    assert explain_closed({(0, 1)})[1] == "nothing arrives at rank 1 from rank 0"
