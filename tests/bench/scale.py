"""The Conductor and the judge at a scale that no single machine trains at: docs/engines.md has the figures.

`make scale` records a real job of two ranks, and plays it on many nodes: the Conductor, the wires, the deputies and the
logs are real, and each rank is a process that writes the recorded events by the agent's log and line. One rank makes
another call than the last all-reduce, so that a hang is to be proven. `make scale ARGS='256 32 20'` plays 256 ranks on
32 deputies, of 20 steps; then a run directory of as many ranks is judged.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.played import PlayedRunner
from support.player import adapted

from breakrank.conductor.conductor import Conductor
from breakrank.history.reader import records_of
from breakrank.host.session import Session
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import judge_saved, load_run
from breakrank_agent.plan import Plan

SMALL = Path(__file__).parents[1] / "programs"
#: The ranks, nodes, and steps until the hang, unless the command line says others; and the steps that are judged.
RANKS, NODES, STEPS, JUDGED = 1024, 128, 20, 20


def main(words: Sequence[str]) -> int:
    """Record, play and judge; print the figures."""
    ranks, nodes, steps = map(int, words) if words else (RANKS, NODES, STEPS)
    folder = Path(tempfile.mkdtemp(prefix="breakrank-scale-"))
    try:
        records = record(folder / "recorded", max(steps, JUDGED))
        play(folder, records, ranks, nodes, steps)
        judge(folder, records, ranks)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def record(folder: Path, steps: int) -> list[bytes]:
    """Return what one rank of a real job of two has recorded."""
    plan = Plan("scale", "record", "small:wrapped", steps=steps, oracles=DEFAULT_ORACLES, control="")
    with Bench(folder) as bench:
        run = bench.run(Request(plan, programs=SMALL)).folder
    return (records_of(run, 0) / "rank-0.jsonl").read_bytes().splitlines()


def play(folder: Path, records: Sequence[bytes], ranks: int, nodes: int, steps: int) -> None:
    """Play the beginning of the record until the last all-reduce of a step, which one rank does not make."""
    own = list(adapted(records[: _place_of_reduce(records, steps) + 1], 0, ranks))
    run = lay(folder / "played", ranks, steps)
    session, began, used = Session(), time.monotonic(), time.process_time()
    runner = PlayedRunner(session, own, nodes, hangs=True, skips=77 % ranks)
    try:
        Conductor(Plan.loads((run / "plan.json").read_text()), run, session, runner).run()
    finally:
        session.close()
    took, used, count = time.monotonic() - began, time.process_time() - used, len(own) * ranks
    told = [json.loads(line) for line in (run / "conductor.jsonl").read_text().splitlines()]
    spawned, (hung,) = [e for e in told if e["kind"] == "spawned"], [e for e in told if e["kind"] == "hung"]
    last = max(json.loads(path.read_bytes().splitlines()[-1])["t"] for path in records_of(run, 0).glob("rank-*.jsonl"))
    size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    say(f"{ranks} ranks on {nodes} deputies, {count} events, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    say(f"  until all ranks were taken in: {spawned[-1]['t'] - spawned[0]['t']:.1f} s; in all {took:.1f} s")
    say(f"  Conductor: {used:.1f} s of a core, {used / count * 1e6:.0f} µs an event; {peak_mb()} MB at most")
    say(f"  the hang was proven {hung['t'] - last:.2f} s after the last event: {hung['why']}, ranks {hung['peers']}")
    say(f"  on disk: {size / 1e6:.1f} MB, {size / count:.0f} bytes an event")


def judge(folder: Path, records: Sequence[bytes], ranks: int) -> None:
    """Judge a run in which all ranks have recorded the same steps, and have ended well."""
    run = lay(folder / "judged", ranks, JUDGED)
    cut = (
        next(n for n, line in enumerate(records) if json.loads(line)["step"] > JUDGED)
        if _steps(records) > JUDGED
        else 0
    )
    own = [*records[: cut or len(records)], *([records[-1]] if cut else [])]
    events: list[dict[str, Any]] = []
    for rank in range(ranks):
        lines = b"\n".join(adapted(own, rank, ranks)) + b"\n"
        (records_of(run, 0) / f"rank-{rank}.jsonl").write_bytes(lines)
        events.append({"kind": "spawned", "t": 0.0, "attempt": 0, "rank": rank, "pid": rank + 1})
    events += [{"kind": "exit", "t": 9e9, "attempt": 0, "rank": n, "status": 0, "ended": False} for n in range(ranks)]
    events.append({"kind": "attempt", "t": 9e9, "attempt": 0, "failed": False, "hung": False})
    (run / "conductor.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    used, count = time.process_time(), len(own) * ranks
    saved = load_run(run)
    read = time.process_time() - used
    verdict = judge_saved(saved)
    judged = time.process_time() - used - read
    say(f"{ranks} ranks of {JUDGED} steps, {count} events: {verdict.outcome.value}")
    say(f"  read in {read:.1f} s of a core, {read / count * 1e6:.0f} µs an event")
    say(f"  judged in {judged:.1f} s of a core, {judged / count * 1e6:.0f} µs an event; {peak_mb()} MB at most")


def lay(run: Path, ranks: int, steps: int) -> Path:
    """Make a run directory."""
    records_of(run, 0).mkdir(parents=True)
    (run / "work").mkdir()
    plan = Plan(
        "scale",
        "played",
        "small:wrapped",
        ranks=ranks,
        steps=steps,
        oracles=DEFAULT_ORACLES,
        control="",
        deadline_s=600.0,
    )
    (run / "plan.json").write_text(plan.dumps())
    (run / "meta.json").write_text('{"version": 1, "breakrank": "0"}')
    return run


def peak_mb() -> int:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def _place_of_reduce(records: Sequence[bytes], step: int) -> int:
    """Return the place of the all-reduce of a step."""
    for place, line in enumerate(records):
        event = json.loads(line)
        if event["step"] == step and event["kind"] == "point" and event.get("op") == "allreduce_":
            return place
    raise LookupError(f"no all-reduce of step {step} is on record")


def _steps(records: Sequence[bytes]) -> int:
    return max(json.loads(line)["step"] for line in records)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
