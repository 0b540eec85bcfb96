"""A rank that computes as it starts imports what it trains with; one that was sent something may be about to move."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from breakrank import evidence
from breakrank.evidence import Condition, Look, Stillness
from breakrank.waits import Ledger
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


@pytest.fixture
def proves(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what looks once more at two ranks that stand still in a collective, and says whether that is a proof."""
    monkeypatch.setattr(evidence, "look", lambda pid, call: Look(Condition.WAITS, ((pid, 1),)))
    watchdog = Watchdog(Plan("test", "test", "test:main"), 0, lambda pids: ())
    ranks: dict[int, Any] = {}
    for rank in (0, 1):
        ledger = Ledger()
        ledger.take({"kind": "point", "point": "collective", "op": "allreduce_", "group": "0", "c": 1, "step": 1})
        ranks[rank] = SimpleNamespace(ledger=ledger, gone=False, done=False, process=SimpleNamespace(pid=rank))

    def once(closed: set[tuple[int, int]] | None) -> bool:
        monkeypatch.setattr(watchdog._ways, "closed", lambda ranks, waiting, meet=False: closed)
        return watchdog._proof(ranks, ranks, (), False) is not None

    return once


def test_ranks_that_have_stood_still_while_something_was_on_its_way_are_looked_at_anew_once_it_has_arrived(
    proves: Any,
) -> None:
    assert not any(proves(None) for _ in range(100))
    # It may have come after the last look, and before the kernel was asked whether it is still on its way.
    assert not any(proves(set()) for _ in range(Stillness.LOOKS_ALONE))
    assert any(proves(set()) for _ in range(Stillness.LOOKS_ALONE))


def test_a_way_that_is_closed_needs_no_new_looks(proves: Any) -> None:
    assert not any(proves(None) for _ in range(100))
    assert proves({(0, 1)})
