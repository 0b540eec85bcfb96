"""The time to prove a hang, with the group's time-out left at 30 minutes, and the cost of a thousand ranks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from measure import Measured, aim

from breakrank.analysis.hang import explain
from breakrank.analysis.wait_for import Ledger
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Terms
from breakrank.oracles.collectives import judge
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import Event
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.trigger import at

SMALL = Path(__file__).parents[1] / "programs"
RUNS = 50
#: The aim of the design, in seconds.
AIM_S = 1.0

#: By name, the strike on a job that reduces two gradients a step by hand, and then meets in a barrier.
WAYS = {
    "one rank skips the last all-reduce": faults.SkipCollective() @ at(rank=1, step=4, point="collective", visit=2),
    "one rank is stopped": faults.Stop() @ at(rank=1, step=2, point="collective"),
    "one rank waits with the GIL held": faults.HoldGil() @ at(rank=1, step=2, point="collective"),
}
RANKS, CALLS = 1024, 50


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with Bench(tmp_path_factory.mktemp("hang")) as made:
        yield made


def latency(bench: Bench, strike: Strike) -> float:
    """Return the seconds from the strike to the hung event of one run."""
    struck = Strike(strike.fault, strike.trigger, (1,))
    plan = Plan("bench", "hang", "small:train", steps=4, oracles=DEFAULT_ORACLES, strikes=(struck,))
    result = bench.run(Request(plan, programs=SMALL))
    assert result.verdict.outcome is Outcome.HUNG, result.verdict
    history = load_run(result.folder).history
    fired = [e["t"] for e in history.ranks[0, 1].of_kind("strike") if e["phase"] == "fired"]
    return float(history.seen("hung")[0]["t"] - fired[0])


@pytest.mark.parametrize("name", WAYS)
def test_how_soon_a_hang_is_known(bench, name):
    taken = [latency(bench, WAYS[name]) for _ in range(RUNS)]
    Measured(f"{name}: from the strike to the proof", taken, "warm", "taking stacks, and judging").show()
    aim(f"each less than {AIM_S:g} s", max(taken) < AIM_S)


def events(rank: int, skips: bool) -> list[Event]:
    """Return a rank's records of its all-reduces; a rank that skips leaves the last one out and is in another call."""
    said = {"op": "allreduce_", "shapes": [[1024]], "dtype": "float32", "reduce": "SUM", "site": "train.py:88"}
    found: list[Event] = [{"kind": "group", "group": "0", "ranks": list(range(RANKS)), "step": 0, "n": 0, "t": 0.0}]
    read, wrote = (
        [{"digest": digest, "n": 1024, "sum": total, "abs": total, "max": 1.0, "min": 1.0}]
        for digest, total in ((f"{rank:x}", 1024.0), ("all", 1024.0 * RANKS))
    )
    for number in range(1, CALLS + 1):
        here = {"seq": "main", "step": number, "t": number + rank / 1e4, "n": 2 * number, "group": "0", "c": number}
        odd = skips and number == CALLS
        called = {"op": "barrier", "shapes": [], "site": "train.py:97"} if odd else {"in": read}
        found.append({**said, **here, "kind": "point", "point": "collective", "visit": 1, "size": RANKS, **called})
        if number < CALLS:
            found.append({**here, "kind": "done", "op": said["op"], "out": wrote, "kept": True})
    return found


def test_what_matching_the_logs_of_a_thousand_ranks_takes():
    logs = [events(rank, skips=rank == 77) for rank in range(RANKS)]
    followed, explained = [], []
    for _ in range(3):
        ledgers = {rank: Ledger() for rank in range(RANKS)}
        began = time.perf_counter()
        for rank, log in enumerate(logs):
            for event in log:
                ledgers[rank].take(event)
        followed.append((time.perf_counter() - began) / (RANKS * CALLS))
        began = time.perf_counter()
        found = explain(ledgers)
        explained.append(time.perf_counter() - began)
        assert found.peers == (77,)
    Measured(f"following one collective, {RANKS} ranks", followed, "warm", "reading the mapped logs").show()
    Measured(f"who holds {RANKS} ranks up, after {CALLS} collectives", explained, "warm", "evidence from /proc").show()


@pytest.mark.parametrize("ranks", [16, 128, RANKS])
def test_what_judging_the_laws_of_a_thousand_ranks_takes(ranks):
    lived = {(0, r): RankHistory(0, r, tuple(events(r, skips=False)[:-1])) for r in range(ranks)}
    history = History(lived, ())
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        judge(history, None, Terms(ranks, CALLS, 0.0, 30.0))
        taken.append(time.perf_counter() - began)
    Measured(f"the laws of {CALLS - 1} all-reduces of {ranks} ranks", taken, "warm", "reading the history").show()
