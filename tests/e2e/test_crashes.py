"""A real rank dies of a signal: its line and the other thread are named, and the user sees nothing of Breakrank."""

from __future__ import annotations

import json
import signal

import pytest
from support.plans import plan_of
from test_scripts import plan_of_script

from breakrank.errors import BreakrankError
from breakrank.host import crash_dump, gdb
from breakrank.plan.catalogue import packaged_programs
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.schemas import schema
from breakrank.verdict import Outcome

DIES = """
import ctypes, threading
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(3):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    if number == 1:
        print("before", flush=True)
        ctypes.string_at(0)
"""


def line_of(program: str, text: str) -> int:
    """Return the number of the line that holds a text in a program of fixtures/programs."""
    lines = (packaged_programs() / program).read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if text in line]
    return found


def crash(bench, program: str, **values):
    """Run a program of fixtures/programs, and return its finding and what was saved."""
    result = bench.run(Request(plan_of(program, data="digits", oracles=("crash", "ends"), **values)))
    assert result.verdict.outcome is Outcome.CRASHED, result.verdict
    (finding,) = result.verdict.findings
    return finding, load_run(result.folder)


def test_the_line_that_died_and_the_thread_that_freed_are_named(bench):
    finding, saved = crash(bench, "freed:evicting_while_mirrored")
    assert (finding.cause, finding.ranks, finding.step) == ("killed by a signal", (1,), 3)
    assert finding.evidence["signal"] == "SIGSEGV"
    assert finding.evidence["site"] == f"freed.py:{line_of('freed.py', 'copy.copy_(cache)')}"
    # The thread was stopped at the line that frees the memory, or after it: a busy machine lets the thread go on.
    (other,) = finding.evidence["others"]
    assert other["thread"] == "MainThread" and other["site"].startswith("freed.py:")
    kept = (saved.folder / "attempt-0" / "rank-1.crash").read_text()
    assert "mirror (died), most recent call first" in kept and "Fatal Python error: Segmentation fault" in kept


def test_a_bus_error_is_told_from_a_segmentation_fault(bench):
    finding, _ = crash(bench, "mapped:truncating")
    assert finding.evidence["signal"] == "SIGBUS"
    assert finding.evidence["site"] == f"mapped.py:{line_of('mapped.py', 'self.shard.float().sum()')}"


def test_without_the_tools_the_line_is_named_all_the_same(bench, monkeypatch):
    def missing() -> str:
        raise BreakrankError("py-spy, which reads the stacks, is not installed")

    monkeypatch.setattr(crash_dump, "spy", missing)
    finding, _ = crash(bench, "unchecked:trusting_indices")
    assert finding.evidence["site"] == f"unchecked.py:{line_of('unchecked.py', 'graph @ lesson.images')}"
    assert "py-spy" in finding.evidence["unread"]


def test_a_missing_debugger_is_said_with_its_cure(monkeypatch):
    monkeypatch.setattr(gdb.shutil, "which", lambda name: None)
    assert gdb.read_native(1, [1]).unread == "gdb is not installed; apt-get install gdb"


def test_a_run_that_does_not_ask_for_it_is_not_stopped_and_dies_of_the_same(bench):
    result = bench.run(Request(plan_of("unchecked:trusting_indices", data="digits", oracles=("ends",))))
    saved = load_run(result.folder)
    assert result.verdict.outcome is Outcome.CRASHED and result.verdict.findings == ()
    assert saved.history.ranks[0, 1].status == -signal.SIGSEGV
    (event,) = saved.history.seen("crash")
    assert [t["died"] for t in event["threads"]] == [True]


def test_what_the_conductor_writes_is_as_the_schema_says(bench):
    jsonschema = pytest.importorskip("jsonschema")
    _, saved = crash(bench, "unchecked:trusting_labels")
    for event in saved.history.seen("crash"):
        jsonschema.Draft202012Validator(schema("conductor")).validate(event)


def test_a_users_script_dies_as_it_would_without_us_and_prints_the_same(bench, tmp_path):
    (tmp_path / "train.py").write_text(DIES)
    plan = plan_of_script("train.py", ranks=1)
    runs = [bench.run(Request(plan, where=tmp_path, agent=agent)) for agent in (True, False)]
    statuses, outputs = [], []
    for result in runs:
        events = [json.loads(line) for line in (result.folder / "conductor.jsonl").read_text().splitlines()]
        statuses.append({e["rank"]: e["status"] for e in events if e["kind"] == "exit"})
        base = result.folder / "attempt-0"
        outputs.append([(base / f"rank-0.{name}").read_bytes() for name in ("out", "err")])
    assert statuses[0] == statuses[1] == {0: -signal.SIGSEGV}
    assert outputs[0] == outputs[1] == [b"before\n", b""]
    (finding,) = [f for f in runs[0].verdict.findings if f.oracle == "crash"]
    assert finding.evidence["site"] == "train.py:12" and finding.step == 2
