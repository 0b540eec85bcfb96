"""A rank that has just started and computes imports what it trains with; one that sleeps does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from breakrank.watchdog import Watchdog
from breakrank_agent.plan import Plan


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process that does what the parameter says, and has begun to."""
    program = f"print('ready', flush=True)\n{request.param}"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        yield started
        started.kill()


def imports(process: subprocess.Popen[str], point: str) -> list[bool]:
    """Return what many looks say of a rank that was last seen at a point."""
    watchdog = Watchdog(Plan("test", "test", "test:main"), 0, lambda pids: ())
    rank: Any = SimpleNamespace(point=point, process=SimpleNamespace(pid=process.pid))
    return [watchdog._imports({0: rank}) for _ in range(100)]


@pytest.mark.parametrize("process", ["while True: pass"], indirect=True)
def test_a_rank_that_computes_before_its_first_point_imports(process: subprocess.Popen[str]) -> None:
    assert all(imports(process, "start"))
    assert not any(imports(process, "load"))


@pytest.mark.parametrize("process", ["import signal\nsignal.pause()"], indirect=True)
def test_a_rank_that_sleeps_does_not(process: subprocess.Popen[str]) -> None:
    assert not imports(process, "start")[-1]
