"""Two thousand healthy jobs: no hang, no mismatch and no drift is ever said of one, on a machine at rest or loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from support.healthy_runs import objections

pytestmark = pytest.mark.soak

RUNS = int(os.environ.get("BREAKRANK_SOAK_RUNS", "2000"))


@pytest.fixture(params=[False, True], ids=["at rest", "loaded"])
def machine(request):
    """Leave the machine idle, or load it with twice as much work as it has cores."""
    count = 2 * (os.cpu_count() or 1) if request.param else 0
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    yield
    for process in busy:
        process.kill()
        process.wait()


def test_nothing_is_objected_to_in_a_healthy_job(bench, machine, monkeypatch):
    monkeypatch.setenv("HEALTHY_LATE", "0.25")
    wrong = objections(bench, range(RUNS // 2))
    assert not wrong, Counter(said for _, said in wrong).most_common()
