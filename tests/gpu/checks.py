"""The checks. Each takes a launcher, returns one plain sentence and its figures, and raises `Failed` otherwise."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from launch import Launcher, Lived, expect

Found = tuple[str, dict[str, Any]]

#: As in `programs.py`, which only ranks import: it needs torch.
OVERSIZED_RANK, OVERSIZED_STEP = 1, 3
#: The bytes of one step's activations, and the first steps, which make tensors that are made once.
ACTIVATIONS, FIRST_STEPS = 32 * 1024 * 4, 3
#: The collectives that `alone` calls, as the hook names them.
CALLED = ["allreduce_", "broadcast_", "_allgather_base_", "_reduce_scatter_base_", "barrier"]
ROUNDS = 3
#: The most that the disarmed agent may take of a step of 10 ms, in per cent.
AIM_PERCENT = 1.0


def out_of_memory(launcher: Launcher) -> Found:
    """An oversized batch on one of two ranks is seen as that rank's report."""
    ranks = launcher.run("oversized", ranks=2)
    reports = [(event["t"], one.rank, event) for one in ranks for event in one.of_kind("report")]
    expect(bool(reports), "no rank reported anything")
    _, rank, report = min(reports, key=lambda found: found[0])
    kind = "OutOfMemoryError" if launcher.device == "cuda" else "RuntimeError"
    expect(rank == OVERSIZED_RANK, f"rank {rank} reported first ({report['type']}: {report['message']})")
    expect(report["type"] == kind, f"the report is {report['type']}: {report['message']}")
    expect("memory" in report["message"], f"the report says {report['message']}")
    last = [event for event in ranks[rank].of_kind("point") if event["point"] != "end"][-1]
    expect(ranks[rank].code == 1, f"rank {rank} ended with {ranks[rank].code}")
    expect(ranks[0].code is not None, "rank 0 waited on when its peer was gone")
    expect(all(e["type"] != "OutOfMemoryError" for _, r, e in reports if r != rank), "the other rank ran out, too")
    done = sum(event["point"] == "step" for event in ranks[rank].of_kind("point"))
    expect(done == OVERSIZED_STEP - 1, f"rank {rank} ended {done} steps before")
    figures = {
        "rank": rank, "type": report["type"], "message": report["message"], "steps_done": done,
        "last_point": last["point"], "other": [[r, e["type"]] for _, r, e in reports if r != rank],
        "codes": [one.code for one in ranks],
    }  # fmt: skip
    return f"rank {rank} of 2 reported {report['type']} in step {OVERSIZED_STEP}", figures


def census(launcher: Launcher) -> Found:
    """The census tells a loop that keeps activations on the device from one that does not, as the allocator does."""
    figures: dict[str, Any] = {"allocator_agrees": launcher.device == "cuda"}
    run = partial(launcher.run, evidence=("census",))
    loops = {program: run(program)[0].must_end_well() for program in ("leaking", "sound")}
    for (program, lived), per_step in zip(loops.items(), (ACTIVATIONS, 0), strict=True):
        counted = [event["bytes"] for event in lived.of_kind("census")[FIRST_STEPS:]]
        given = [told["bytes"] for told in lived.told("allocated")[FIRST_STEPS:]]
        expect(len(counted) > 10, f"only {len(counted)} censuses were taken of the {program} loop")
        grown = sorted(set(_differences(counted)))
        figures[program] = {"censuses": len(counted), "bytes_per_step": grown, "cost_ms": _cost_ms(lived)}
        figures[program]["bytes_without_site"] = _without_site(lived)
        expect(grown == [per_step], f"the {program} loop's storages grow by {grown} bytes, not {per_step}", figures)
        if launcher.device == "cuda":
            allocated = sorted(set(_differences(given)))
            expect(allocated == grown, f"the allocator's bytes grow by {allocated}, the census's by {grown}", figures)
    most = _grown_most(loops["leaking"])
    expect(most["function"] == "forward", f"the line that grew most is {most}", figures)
    figures["site"] = f"{most['site']} in {most['function']}"
    return f"{ACTIVATIONS:,} bytes a step against 0, made at {figures['site']}", figures


def _differences(values: Sequence[int]) -> list[int]:
    return [after - before for before, after in itertools.pairwise(values)]


def _cost_ms(lived: Lived) -> float:
    return float(median(event["ms"] for event in lived.of_kind("census")[FIRST_STEPS:]))


def _without_site(lived: Lived) -> int:
    """Return the bytes of the last census's tensors that have no line of the program."""
    return sum(li["bytes"] for li in _tensors(lived.of_kind("census")[-1]) if not li["site"])


def _tensors(event: dict[str, Any]) -> list[dict[str, Any]]:
    return [line for line in event["lines"] if line["meter"] == "tensor"]


def _grown_most(lived: Lived) -> dict[str, Any]:
    """Return the tensors' line that has grown most since the first steps."""
    events = lived.of_kind("census")
    before = {line["site"]: line["bytes"] for line in _tensors(events[FIRST_STEPS])}
    return max(_tensors(events[-1]), key=lambda line: line["bytes"] - before.get(line["site"], 0))


def sharing(launcher: Launcher) -> Found:
    """Two ranks share the card over gloo: the hook sees their collectives, and they get the same parameters."""
    ranks = [one.must_end_well() for one in launcher.run("sharing", ranks=2)]
    for one in ranks:
        expected = {"reduced": [3.0], "given": [1.0], "device": launcher.device}
        expect(one.told("values") == [expected], f"rank {one.rank} has {one.told('values')}, not {expected}")
    seen = [[(e["op"], e["seq"], e["shapes"], e["dtype"]) for e in one.collectives()] for one in ranks]
    expect(sorted(seen[0]) == sorted(seen[1]), "the ranks' collectives differ")
    # One all-reduce a step by DDP, and our own.
    reduced = sum(op == "allreduce_" for op, *_ in seen[0])
    expect(reduced >= 5, f"the hook saw {reduced} all-reduces, there were 5 or more")
    expect(any(op == "broadcast_" for op, *_ in seen[0]), "the hook saw no broadcast")
    digests = [[e.get("params") for e in one.of_kind("payload") if e["of"] == "step"] for one in ranks]
    expect(digests[0] == digests[1] and len(set(digests[0])) == 4, f"the parameters differ: {digests}")
    ends = [one.of_kind("end")[-1]["params"] for one in ranks]
    expect(ends[0] == ends[1], f"the parameters differ at the end: {ends}")
    sequences = {seq: sum(s == seq for _, s, *_ in seen[0]) for seq in sorted({s for _, s, *_ in seen[0]})}
    figures = {"collectives_per_rank": len(seen[0]), "all_reduces": reduced, "by_sequence": sequences, "params": ends}
    where = ", ".join(f"{count} in {seq}" for seq, count in sequences.items())
    return f"{len(seen[0])} collectives a rank seen ({where}), parameters equal after each of 4 steps", figures


def nccl(launcher: Launcher) -> Found:
    """The hook sees the collectives of a group of one over NCCL."""
    lived = launcher.run("alone")[0].must_end_well()
    backend = "nccl" if launcher.device == "cuda" else "gloo"
    told = lived.told("values")
    expect(told == [{"equal": True, "backend": backend}], f"the program has {told}")
    seen = [event["op"] for event in lived.collectives()]
    expect(seen == CALLED, f"the hook saw {seen}, called were {CALLED}")
    figures = {
        "seen": seen,
        "timeout_s": next((event["timeout_s"] for event in lived.collectives() if "timeout_s" in event), None),
        "sequences": sorted({event["seq"] for event in lived.collectives()}),
    }
    return f"{len(seen)} of {len(CALLED)} collectives over {backend} seen, time-out {figures['timeout_s']} s", figures


def zygote(launcher: Launcher) -> Found:
    """The zygote makes no CUDA call, and ranks forked from it can initialise CUDA, one after the other."""
    with launcher.zygote() as warm:
        expect(warm.threads == 1, f"the zygote has {warm.threads} threads")
        for _ in range(2):
            lived = warm.run("first_use").must_end_well()
            before, after = lived.told("before"), lived.told("after")
            expect(before == [{"initialized": False, "spoilt": False}], f"a new rank begins with {before}")
            used = {"initialized": launcher.device == "cuda", "equal": True}
            expect(after == [used], f"after its first use it has {after}, not {used}")
        devices = sorted({target for target in warm.opened() if target.startswith("/dev/nvidia")})
        expect(not devices, f"the zygote has {devices} open")
        mapped = "libcuda.so" in warm.maps()
        own = [note["initialized"] for note in warm.notes() if note["pid"] == warm.pid]
    expect(own == [False, False], f"in the zygote, before each fork, torch.cuda.is_initialized() was {own}")
    figures = {"threads": 1, "initialized_before_each_fork": own, "driver_library_mapped": mapped, "ranks": 2}
    return "CUDA not initialised in the zygote before 2 forks, no device open, both ranks could use it", figures


def overhead(launcher: Launcher) -> Found:
    """The disarmed agent takes less than 1 % of a step of 10 ms; what digests of all parameters cost stands apart."""
    ways: dict[str, dict[str, Any]] = {
        "off": {"agent": False},
        "on": {"digests": "none"},
        "on_with_digests": {"digests": "every"},
    }
    taken: dict[str, list[list[float]]] = {way: [] for way in ways}
    with launcher.zygote() as warm:
        size = _left(warm.run("calibrate", agent=False), "batch.json")
        for _, (way, options) in itertools.product(range(ROUNDS), ways.items()):
            lived = warm.run("steady", env={"GPU_BATCH": str(size)}, pin=False, **options)
            taken[way].append(_left(lived, "seconds.json"))
            steps = sum(event["point"] == "step" for event in lived.of_kind("point"))
            expect(way == "off" or steps >= len(taken[way][-1]), f"the agent saw {steps} steps only")
    figures: dict[str, Any] = {"batch": size, "load": round(os.getloadavg()[0], 2), "warm": True}
    for way, runs in taken.items():
        pooled = [took for run in runs for took in run]
        figures[way] = {
            "n": len(pooled), "median_ms": _ms(median(pooled)), "maximum_ms": _ms(max(pooled)),
            "medians_of_runs_ms": [_ms(median(run)) for run in runs],
        }  # fmt: skip
    off = figures["off"]["median_ms"]
    for way in ("on", "on_with_digests"):
        more = figures[way]["median_ms"] - off
        figures[way] |= {"more_us": round(1000 * more, 1), "more_percent": round(100 * more / off, 2)}
    on, full, n = figures["on"], figures["on_with_digests"], figures["off"]["n"]
    measured = (
        f"{on['more_us']:g} µs ({on['more_percent']:g} %) more on a step of {off:g} ms; with digests of 4.2 million "
        f"parameters {full['more_us']:g} µs; medians, n={n} each, alternating runs"
    )
    expect(on["more_percent"] <= AIM_PERCENT, f"{measured}; the aim is {AIM_PERCENT:g} %", figures)
    return measured, figures


def _left(lived: Lived, name: str) -> Any:
    return json.loads((lived.must_end_well().folder / name).read_text())


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 4)


CHECKS: dict[str, Callable[[Launcher], Found]] = {
    "out of memory": out_of_memory,
    "census": census,
    "shared card": sharing,
    "NCCL": nccl,
    "zygote": zygote,
    "overhead": overhead,
}
