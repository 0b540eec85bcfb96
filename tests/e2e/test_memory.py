"""A limit on a rank's memory is in force in the kernel: an allocation beyond it fails, and the limit can be lifted."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from breakrank.verdict import Outcome
from breakrank.witnesses import Evidence, witness_of
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

LIMIT = faults.LimitMemory(headroom_mb=32)
#: Allocates the number of megabytes on each line, and prints the result of the allocation.
ALLOCATES = """
import sys
for line in sys.stdin:
    try:
        bytearray(int(line) * 2**20)
        print("fits", flush=True)
    except MemoryError:
        print("too big", flush=True)
"""


@dataclass
class Target:
    """A process that stands for a rank."""

    pid: int
    rank: int = 0
    kept: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def process():
    """Yield a process that allocates as much as it is told to."""
    with subprocess.Popen(
        [sys.executable, "-c", ALLOCATES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.kill()


def allocate(process: subprocess.Popen[str], megabytes: int) -> str:
    assert process.stdin is not None and process.stdout is not None
    print(megabytes, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def test_what_exceeds_the_headroom_fails_until_the_limit_is_lifted(process):
    target = Target(process.pid)
    assert allocate(process, 64) == "fits"
    LIMIT.strike(target)
    assert [allocate(process, size) for size in (1, 64, 1)] == ["fits", "too big", "fits"]
    LIMIT.heal(target)
    assert allocate(process, 64) == "fits"


def test_its_witness_reads_the_kernels_limit_before_and_after(process):
    witness, target = witness_of(LIMIT), Target(process.pid)
    before = witness.look(LIMIT, target)
    assert witness.judge(LIMIT, Evidence(before=before, after=witness.look(LIMIT, target))) is None
    LIMIT.strike(target)
    seen = witness.judge(LIMIT, Evidence(before=before, after=witness.look(LIMIT, target)))
    assert seen is not None and seen.startswith("/proc/<pid>/limits: address space unlimited became ")
    LIMIT.heal(target)
    assert witness.look(LIMIT, target) == before


def test_a_rank_under_a_limit_trains_on_if_it_asks_for_no_more(run):
    result, saved = run("small:train", LIMIT @ at(rank=1, step=2))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    (landed,) = [e for e in saved.history.seen("strike") if e["phase"] == "landed"]
    assert "unlimited became" in landed["witness"]


def test_what_a_rank_asks_for_beyond_its_limit_is_its_own_report(run):
    result, saved = run("small:needs_much_at_its_second_step", LIMIT @ at(rank=1, step=2, point="load"))
    assert result.verdict.outcome is Outcome.DETECTED
    assert result.verdict.blame.ranks == (1,)
    assert "DefaultCPUAllocator: can't allocate memory" in saved.history.ranks[0, 1].report["message"]
    assert "DefaultCPUAllocator: can't allocate memory" in " ".join(result.verdict.reported)
