"""The matrix detector × fault of collectives that do not match, from real runs, as docs/collectives.md.

Method: each row of tests/programs/mismatches.py runs as two ranks on gloo, rank 1 odd at step 2, four times: with the
debug mode off; if that hangs, with a group time-out of 2 s, for which we wait; with TORCH_DISTRIBUTED_DEBUG=DETAIL and
the same time-out; and under torchrun with that time-out. `make matrix`, some minutes; `matrix.py ROW…` prints some.

Each run is a result of one session in the history of `.breakrank/`, and `.breakrank/matrix/index.html` is its page.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from breakrank.analysis.collectives import groups, messages
from breakrank.analysis.endings import reported
from breakrank.history.reader import History
from breakrank.judge.blame import NAMED, TIMED_OUT
from breakrank.memory.entries import MATRIX, Entry
from breakrank.memory.reading import read
from breakrank.memory.recorder import Recorder
from breakrank.memory.store import NAME
from breakrank.report.remembered import begun, with_plan, with_result
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run
from breakrank.timeline.site import write_report
from breakrank.verdict import Finding, Outcome, name_ranks
from breakrank_agent.plan import Plan

PROGRAMS = Path(__file__).parents[1] / "programs"
PAGE = Path(__file__).parents[2] / "docs" / "collectives.md"
RUNS = Path(".breakrank").absolute()
ODD = 1
TIMEOUT_S = 2.0
SHORT = {"GROUP_TIMEOUT_S": str(TIMEOUT_S)}
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", **SHORT}
STEPS = 3


@dataclass(frozen=True)
class Answer:
    """The answer of one detector to one fault: its words, whether it noticed anything, and the ranks that it names."""

    words: str
    noticed: bool = False
    named: frozenset[int] = frozenset()

    @property
    def right(self) -> bool:
        """True if the answer names the odd rank and no other."""
        return self.named == {ODD}


NOTHING = Answer("–")


def plan(row: str, environment: dict[str, str], patience_s: float = 0.0) -> Plan:
    """Return the plan of a row in one environment."""
    return Plan(
        scenario="matrix",
        case=row,
        program=f"mismatches:{row}",
        steps=STEPS,
        deadline_s=5.0,
        patience_s=patience_s,
        control=f"mismatches:{row}_sound",
        oracles=("collectives", "progress"),
        environment=environment,
    )


def launched(row: str) -> Plan:
    """Return the plan of a row under torchrun, which is left to itself."""
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    made = plan(row, {**SHORT, "BREAKRANK_STEPS": str(STEPS), "OMP_NUM_THREADS": "1"}, patience_s=60.0)
    made = replace(made, program="", command=(*torchrun, "mismatches.py", row), runner="join", ranks=0, steps=0)
    return replace(made, control="", pin=False, deadline_s=120.0)


def began(history: History, finding: Finding) -> float:
    """Return the time at which the odd rank made the call that the finding is about."""
    ways = messages(history, 0) if "message" in finding.evidence["op"] else groups(history, 0)
    return min(
        call.time
        for way in ways
        for call in way.calls.get(ODD, ())
        if (way.name, call.number) == (finding.evidence["group"], finding.evidence["number"])
    )


def of_framework(result: Result, history: History) -> Answer:
    """Return the answer of the framework: the reports or deaths of the ranks, and the ranks that they name."""
    zero = began(history, result.verdict.findings[0])
    told: dict[str, list[int]] = {}
    named: set[int] = set()
    for lived in history.last:
        if lived.died_of():
            exits = [e["t"] for e in history.seen("exit") if e["rank"] == lived.rank]
            told.setdefault(f"{lived.died_of()} after {exits[0] - zero:.1f} s", []).append(lived.rank)
        elif lived.report is not None:
            message = str(lived.report["message"])
            named |= {int(rank) for ranks in NAMED.findall(message) for rank in re.findall(r"\d+", ranks)}
            kind = "time-out" if TIMED_OUT.search(reported(lived)) else "error"
            told.setdefault(f"{kind} after {lived.report['t'] - zero:.1f} s", []).append(lived.rank)
    if not told:
        return Answer("hangs") if result.verdict.outcome is Outcome.HUNG else NOTHING
    words = ", ".join(f"{what} on {name_ranks(ranks)}" for what, ranks in told.items())
    return Answer(f"{words}; names {name_ranks(sorted(named)) if named else 'nobody'}", True, frozenset(named))


def of_launcher(result: Result, history: History) -> Answer:
    """Return the answer of the launcher: the ranks that it blames."""
    launcher = history.seen("launcher")[-1]
    if not launcher["status"]:
        return NOTHING
    zero = began(history, result.verdict.findings[0])
    blames = launcher["blames"]
    words = f"after {launcher['t'] - zero:.1f} s blames {name_ranks(blames) if blames else 'nobody'}"
    return Answer(words, True, frozenset(blames))


def of_ours(result: Result, history: History) -> Answer:
    """Return our finding and the time at which it was known: during a hang, or else when the run is over and judged."""
    finding = result.verdict.findings[0]
    hung = [e["t"] for e in history.seen("hung")]
    when = f"after {hung[0] - began(history, finding):.1f} s" if hung else "at the end"
    blamed = result.verdict.blame.ranks
    return Answer(f"{finding.cause}, {name_ranks(blamed)}, {when}", True, frozenset(blamed))


def ask(bench: Bench, recorder: Recorder, row: str) -> list[Answer]:
    """Run a row in every way, and return each detector's answer."""

    def go(way: str, made: Plan) -> tuple[Result, History]:
        where = PROGRAMS if made.command else None
        result = bench.run(Request(made, programs=PROGRAMS, where=where))
        entry = with_plan(Entry(f"mismatch-{way}", row, family="collectives"), made, PROGRAMS)
        recorder.add(with_result(entry, result))
        if result.verdict.outcome is Outcome.VOID:
            sys.exit(f"{row}: {result.verdict.sentence()} ({result.folder})")
        return result, load_run(result.folder).history

    off = go("debug-off", plan(row, {}))
    hangs = off[0].verdict.outcome is Outcome.HUNG
    late = of_framework(*go("time-out", plan(row, SHORT, patience_s=60.0))) if hangs else NOTHING
    detail = of_framework(*go("detail", plan(row, DETAIL, patience_s=60.0)))
    under = go("torchrun", launched(row))
    while off[0].verdict.findings[0].cause not in [f.cause for f in under[0].verdict.findings]:
        # On a loaded machine, torchrun's ranks do not always find each other.
        print(f"{row} came to nothing under torchrun, once more: {under[0].verdict.sentence()}", file=sys.stderr)
        under = go("torchrun", launched(row))
    return [of_framework(*off), late, detail, of_launcher(*under), of_ours(*off)]


HEAD = ["rank 1 is odd in", "exception, debug off", "group time-out of 2 s", "DETAIL", "torchrun", "Breakrank"]


def line(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def table(found: dict[str, list[Answer]]) -> list[str]:
    """Return the table, with the number of faults that each detector noticed, or blamed on the right rank alone."""
    lines = [line(HEAD), line(["---"] * len(HEAD))]
    for row, answers in found.items():
        cells = [f"{a.words}{' ✓' if a.right else ''}" for a in answers]
        # The first four answers are those of torch and torchrun: all but our own.
        nobody = "**nobody**" if not any(a.noticed for a in answers[:4]) else ""
        lines.append(line([f"{row.replace('_', ' ')} {nobody}".strip(), *cells]))
    columns = list(zip(*found.values(), strict=True))
    lines.append(line(["noticed", *(f"{sum(a.noticed for a in column)} of {len(column)}" for column in columns)]))
    right = [f"{sum(a.right for a in column)} of {len(column)}" for column in columns]
    return [*lines, line(["right rank alone ✓", *right])]


def main(wanted: Sequence[str]) -> None:
    """Run all rows and write the page, or some and print them."""
    rows = re.findall(r"^@row\ndef (\w+)", (PROGRAMS / "mismatches.py").read_text(), re.MULTILINE)
    recorder = Recorder(RUNS / NAME, begun(Path.cwd(), ("matrix", *wanted), kind=MATRIX))
    found, status = {}, 130
    try:
        # The bench first: it makes the folder.
        with Bench(RUNS) as bench:
            recorder.begin()
            for row in wanted or rows:
                found[row] = ask(bench, recorder, row)
                print(line([row, *(answer.words for answer in found[row])]), flush=True)
        status = 0
    finally:
        recorder.end(status)
    print(recorder.lack or f"report: {write_report(read(RUNS), RUNS, RUNS / 'matrix')}")
    lines = table(found)
    print("\n".join(lines[-2:]))
    if not wanted:
        facts = f"torch {torch.__version__}, gloo, Python {platform.python_version()}, {os.cpu_count()} cores"
        head, _, _ = PAGE.read_text().partition("<!-- matrix -->")
        PAGE.write_text("\n".join([f"{head}<!-- matrix -->", "", f"Measured with {facts}.", "", *lines, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
