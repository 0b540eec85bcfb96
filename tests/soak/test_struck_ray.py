"""Struck scripts of Ray Train's have the outcomes and the blame that they have under torchrun; none leaves anything."""

from __future__ import annotations

import signal
import time

import pytest
from support.ray_jobs import RAY, TORCHRUN, events, lacks, left, rays_folder, start, verdicts

pytestmark = [pytest.mark.soak, pytest.mark.skipif(bool(lacks()), reason=lacks())]

#: Seconds until nothing of ours may be left. A limit, not a trigger.
GONE_S = 60.0


def told(verdict):
    """Return what a verdict says, but for how long anything took."""
    return {name: verdict[name] for name in ("outcome", "blame", "digest", "void")}


@pytest.mark.parametrize("scenario", ["killed_rank", "stopped_rank", "skipped_collective", "baseline"])
def test_outcomes_blame_and_digests_are_those_under_torchrun(tmp_path, scenario):
    found = []
    for command in (RAY, TORCHRUN):
        folder = tmp_path / command.split()[0]
        folder.mkdir()
        with start(folder, f"--scenario={scenario}", command=command) as pytest_there:
            printed, _ = pytest_there.communicate()
        assert verdicts(folder), printed
        found.append({name: told(verdict) for name, verdict in verdicts(folder).items()})
        assert not left(folder)
        if scenario == "stopped_rank":
            assert {event["evidence"]["by"] for event in events(folder, "conductor.jsonl") if event["kind"] == "hung"}
    assert found[0] == found[1]


@pytest.mark.parametrize("steps", [0, 1, 6])
def test_nothing_is_left_when_pytest_is_killed(tmp_path, steps):
    with start(tmp_path, "--scenario=baseline") as pytest_there:
        while not _has_come(tmp_path, steps):
            assert pytest_there.poll() is None, pytest_there.communicate()[0]
            time.sleep(0.05)
        rays = rays_folder(tmp_path)
        pytest_there.send_signal(signal.SIGKILL)
        pytest_there.communicate()
    until = time.monotonic() + GONE_S
    while left(tmp_path) or rays.exists():
        assert time.monotonic() < until, (left(tmp_path), rays)
        time.sleep(0.1)


def _has_come(folder, steps):
    """Return whether the command runs, and its ranks have made so many steps."""
    if not list(folder.glob(".breakrank/*/launcher.out")):
        return False
    return not steps or any(event["step"] >= steps for event in events(folder, "attempt-0/rank-0.jsonl"))
