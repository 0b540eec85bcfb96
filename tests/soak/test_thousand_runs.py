"""A thousand warm runs in a row: nothing is left, and nothing grows."""

from __future__ import annotations

import operator
import os
import statistics
from pathlib import Path

import psutil
import pytest
from support.plans import PROGRAMS, plan_of

from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

pytestmark = pytest.mark.soak

RUNS = int(os.environ.get("BREAKRANK_SOAK_RUNS", "1000"))
WINDOW = RUNS // 10
#: The size of Python's table of interned names with 2 ** 17 places: 4 bytes for each, and two pointers for two thirds
#: of them. pathlib interns each part of a path for as long as the path is in use. The table is therefore made anew now
#: and then, beside the old one. If malloc(3) takes both from the heap, the heap stays longer by one table.
TABLE = 2**17 * 4 + 2**17 * 2 // 3 * 16
#: The strikes of four runs in turn: a sound one, one that is killed, one that is proven to hang, one that is silent.
STRIKES = [
    (),
    (faults.Kill() @ at(rank=1, step=2, point="collective"),),
    (faults.Stop() @ at(rank=1, step=2, point="collective"),),
    (faults.FlipBit() @ at(rank=1, step=2),),
]


def own_memory(pid: int) -> int:
    """Return the bytes of memory that are no file's: other processes that map the same libraries do not change them."""
    return sum(one.anonymous for one in psutil.Process(pid).memory_maps())


def test_nothing_is_left_and_nothing_grows(tmp_path, monkeypatch):
    # The temporary folder of the ranks, which nobody else uses.
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    plans = [plan_of("small:train", *strikes, deadline_s=60.0) for strikes in STRIKES]
    digests: list[set[str]] = [set() for _ in plans]
    conductor: list[int] = []
    zygote: list[int] = []
    descriptors: list[int] = []
    with Bench(tmp_path / "runs", limit_mb=1) as bench:
        for number in range(RUNS):
            turn = number % len(plans)
            result = bench.run(Request(plans[turn], programs=PROGRAMS))
            digests[turn].add(result.verdict.digest)
            below = psutil.Process(bench.supervisor_pid).children(recursive=True)
            (warm,) = below
            conductor.append(own_memory(os.getpid()))
            zygote.append(own_memory(warm.pid))
            descriptors.append(psutil.Process().num_fds())
            if number % 100 == 99:
                kib = f"conductor {conductor[-1] >> 10} KiB, zygote {zygote[-1] >> 10} KiB"
                print(f"{number + 1} runs: {kib}", flush=True)
    assert [len(found) for found in digests] == [1] * len(plans), "a digest changed"
    assert descriptors[-1] <= descriptors[len(plans)]
    for name, series in (("conductor", conductor), ("zygote", zygote)):
        # The first runs warm caches that are warmed once.
        tenths = [statistics.median(series[at : at + WINDOW]) for at in range(3 * WINDOW, RUNS, WINDOW)]
        grown = statistics.median(map(operator.sub, tenths[1:], tenths)) * (len(tenths) - 1)
        print(f"{name}: {tenths[0] / 2**20:.1f} MiB in the fourth tenth, {tenths[-1] / 2**20:.1f} MiB in the last")
        allowed = tenths[0] * 0.05 + 2**20
        assert grown <= allowed, f"{name} grows in most tenths"
        assert tenths[-1] - tenths[0] <= allowed + TABLE, name
    assert list((tmp_path / "tmp").iterdir()) == []
    left = {path.name for path in Path(tmp_path / "runs").iterdir() if path.suffix == ".log"}
    assert not left
