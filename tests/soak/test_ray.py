"""A script of Ray Train's runs as it is: its workers are ranks, and nothing is written beside the run directory."""

from __future__ import annotations

import pytest
from support.ray_jobs import events, lacks, left, start, verdicts

pytestmark = [pytest.mark.soak, pytest.mark.skipif(bool(lacks()), reason=lacks())]


def test_the_thread_that_trains_is_the_rank_to_its_end(tmp_path):
    with start(tmp_path, "--scenario=baseline") as pytest_there:
        printed, _ = pytest_there.communicate()
    assert pytest_there.returncode == 0, printed
    (verdict,) = verdicts(tmp_path).values()
    assert verdict["outcome"] == "SURVIVED"
    for rank in (0, 1):
        told = events(tmp_path, f"attempt-0/rank-{rank}.jsonl")
        points = [(event["seq"], event["point"]) for event in told if event["kind"] == "point"]
        assert points.count(("main", "step")) == 6
        assert {seq for seq, _ in points} == {"main"}
        assert told[-1]["kind"] == "end" and told[-1]["stays"]
    ends = [(e["rank"], e["status"]) for e in events(tmp_path, "conductor.jsonl") if e["kind"] == "exit"]
    assert sorted(ends) == [(0, 0), (1, 0)]
    (launcher,) = (event for event in events(tmp_path, "conductor.jsonl") if event["kind"] == "launcher")
    assert launcher["status"] == 0
    # Ray Train's results lie in the run directory, and the home has nothing.
    assert list(tmp_path.glob(".breakrank/baseline*/ray_results/*"))
    assert not list((tmp_path / "home").iterdir())
    assert not left(tmp_path)
