"""Run directories of made-up jobs, of any size: each rank makes steps, and in the end all wait for one of them."""

from __future__ import annotations

import json
import random
from pathlib import Path

from breakrank.verdict import Blame, Finding, Outcome, Verdict
from support.plans import plan_of

#: The phases of a step, and the collective in it: five bars.
PHASES = ("load", "forward", "backward", "optimize")
BARS = len(PHASES) + 1


def write_hang(folder: Path, ranks: int, steps: int, away: int = 1) -> Path:
    """Write a run directory: all ranks make `steps` steps, but in the last one rank `away` never reduces."""
    folder.mkdir(parents=True)
    (folder / "attempt-0").mkdir()
    (folder / "plan.json").write_text(plan_of("small:averaging", ranks=ranks).dumps())
    (folder / "meta.json").write_text('{"version": 1, "breakrank": "0"}')
    for rank in range(ranks):
        with open(folder / "attempt-0" / f"rank-{rank}.jsonl", "w") as file:
            file.writelines(json.dumps(event) + "\n" for event in _events(rank, ranks, steps, rank == away))
    (folder / "conductor.jsonl").write_text("".join(json.dumps(e) + "\n" for e in _conductor(ranks, steps, away)))
    words = {"wait": f"the others wait in all_reduce {steps}", "whom": f"rank {away}", "elsewhere": "", "would": ""}
    finding = Finding("progress", "participant missing", (away,), steps, 0, evidence=words)
    verdict = Verdict(Outcome.HUNG, findings=(finding,), blame=Blame((away,), "it never came"))
    (folder / "verdict.json").write_text(json.dumps({**verdict.to_json(), "record": None, "as_recorded": False}))
    return folder


def _events(rank: int, ranks: int, steps: int, away: bool):
    """Yield the events of a rank; its times are drawn from its number."""
    chance, number, base = random.Random(rank), 0, {"seq": "main"}
    group = {"group": "0", "ranks": list(range(ranks)), "backend": "gloo", "timeout_s": 1800.0}
    call = {"op": "allreduce_", "group": "0", "size": ranks, "shapes": [[1024]], "dtype": "float32", "reduce": "SUM"}
    for step in range(1, steps + 1):
        now = 1000.0 + step
        for phase in PHASES:
            now += chance.random() / 5
            yield {**base, "kind": "point", "n": number, "step": step, "t": now, "point": phase, "visit": 1}
            number += 1
            if phase == "backward":
                if step == 1:
                    yield {**base, "kind": "group", "n": number, "step": step, "t": now, **group}
                    number += 1
                if step == steps and away:
                    return
                point = {"point": "collective", "visit": 1, "c": step, "site": "train.py:8", **call}
                yield {**base, "kind": "point", "n": number, "step": step, "t": now + 0.01, **point}
                number += 1
                if step == steps:
                    return
                done = {"op": "allreduce_", "group": "0", "c": step}
                now += 0.02 + chance.random() / 10
                yield {**base, "kind": "done", "n": number, "step": step, "t": now, **done}
                number += 1


def _conductor(ranks: int, steps: int, away: int):
    yield from ({"kind": "spawned", "t": 1000.0, "attempt": 0, "rank": rank, "pid": rank + 1} for rank in range(ranks))
    end = 1002.0 + steps
    waiting = [rank for rank in range(ranks) if rank != away]
    at = {"step": steps, "point": "collective", "op": "allreduce_", "timeout_s": 1800.0, "group": "0", "c": steps}
    yield {
        **{"kind": "hung", "t": end, "attempt": 0, "why": "participant missing", "peer": away, "peers": [away]},
        **{"shown_by": "", "ranks": waiting, "seconds": 1.0},
        "waiting": [{"rank": rank, **at, "lacks": [away]} for rank in waiting],
    }
    for rank in range(ranks):
        yield {"kind": "exit", "t": end, "attempt": 0, "rank": rank, "status": -9, "ended": True}
    yield {"kind": "attempt", "t": end, "attempt": 0, "failed": True, "hung": True}
