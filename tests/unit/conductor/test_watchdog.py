"""The watchdog ends no job with a rank that imports, that waits with a time-out, or that was just sent something."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from breakrank.analysis.hang import Stuck
from breakrank.analysis.wait_for import Ledger, Wait
from breakrank.conductor.watchdog import Watchdog
from breakrank.host import blocked
from breakrank.host.blocked import Condition, Look, Stillness
from breakrank_agent.plan import Plan


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that does what the parameter says, and has begun to."""
    program = f"print('ready', flush=True)\n{request.param}"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        yield started
        started.kill()


def imports(process: subprocess.Popen[str], point: str) -> list[bool]:
    """Return the results of many looks at a rank that was last seen at a point: True if the rank imports."""
    watchdog = Watchdog(Plan("test", "test", "test:main"), 0, lambda pids: ())
    rank: Any = SimpleNamespace(point=point, process=SimpleNamespace(pid=process.pid))
    return [watchdog._imports({0: rank}) for _ in range(100)]


@pytest.mark.parametrize("process", ["while True: pass"], indirect=True)
def test_a_rank_that_computes_before_its_first_point_imports(process: subprocess.Popen[str]) -> None:
    assert all(imports(process, "start"))
    assert not any(imports(process, "load"))


@pytest.mark.parametrize("process", ["import signal\nsignal.pause()"], indirect=True)
def test_a_rank_that_sleeps_does_not(process: subprocess.Popen[str]) -> None:
    # The process prints its line before it sleeps, so that early looks may find it awake.
    assert any(not imports(process, "start")[-1] for _ in range(1000))


#: The last rank of the job: its peers have given up by the time-out of their group, two seconds, and ended.
LAST: dict[str, Any] = {"live": True, "failed": False, "timeout_s": lambda wait, lost: 2.0}
GONE: Any = SimpleNamespace(live=False, failed=True)
LOCKED = "import threading\nlock = threading.Lock()\nlock.acquire()\n"
#: A thread as gloo has one during a collective; it waits for so many seconds.
IN_GLOO = """
import ctypes
def waits():
    ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop")  # PR_SET_NAME
    threading.Event().wait({seconds})
threading.Thread(target=waits, daemon=True).start()
"""


def reason(process: subprocess.Popen[str], waits: dict[int, Wait]) -> Any:
    """Return the reason for ending a job whose last rank stands still in these waits, by its log."""
    watchdog = Watchdog(Plan("test", "test", "test:main", patience_s=5.0), 0, lambda pids: ())
    last: Any = SimpleNamespace(**LAST, process=process, ledger=SimpleNamespace(in_call=""))
    while not watchdog._stillness.proven(Stillness.LOOKS):
        watchdog._look({1: last})
    return watchdog._proven({0: GONE, 1: last}, {1: last}, Stuck("blocked in a lock", (1,), waits), (), 1.0)


@pytest.mark.parametrize(
    "process", [f"{LOCKED}{more}lock.acquire()" for more in ("", IN_GLOO.format(seconds=""))], indirect=True
)
def test_who_waits_in_nothing_of_the_frameworks_and_without_a_time_out_is_not_waited_for(process):
    assert reason(process, {}) == {"why": "", "peer": 0}
    assert reason(process, {1: Wait({})}) is None, "the framework may end what its log says that it waits in"


@pytest.mark.parametrize("process", [f"{LOCKED}{IN_GLOO.format(seconds=3600)}lock.acquire()"], indirect=True)
def test_who_waits_with_a_time_out_is_waited_for(process):
    assert reason(process, {}) is None


@pytest.fixture
def proves(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that looks once more at two ranks in a collective: True if that proves their hang."""
    monkeypatch.setattr(blocked, "look", lambda pid, call, polled: Look(Condition.WAITS, {pid: 1}))
    monkeypatch.setattr(blocked, "main_moves", lambda pid, call: False)
    watchdog = Watchdog(Plan("test", "test", "test:main"), 0, lambda pids: ())
    ranks: dict[int, Any] = {}
    for rank in (0, 1):
        ledger = Ledger()
        ledger.take({"kind": "point", "point": "collective", "op": "allreduce_", "group": "0", "c": 1, "step": 1})
        process = SimpleNamespace(pid=rank, walls=None)
        ranks[rank] = SimpleNamespace(ledger=ledger, gone=False, done=False, process=process, spoke=True)

    def once(closed: set[tuple[int, int]] | None, spoke: bool = True) -> bool:
        ranks[1].spoke = spoke
        monkeypatch.setattr(watchdog._ways, "closed", lambda ranks, waiting, meet=False: closed)
        return watchdog._proof(ranks, ranks, (), False) is not None

    return once


def test_ranks_that_have_stood_still_while_something_was_on_its_way_are_looked_at_anew_once_it_has_arrived(
    proves: Any,
) -> None:
    assert not any(proves(None) for _ in range(100))
    # The data may have arrived after the last look, and before the kernel was asked for data that is still on its way.
    assert not any(proves(set()) for _ in range(Stillness.LOOKS_ALONE))
    assert any(proves(set()) for _ in range(Stillness.LOOKS_ALONE))


def test_a_look_follows_after_nothing_is_on_its_way_any_more(proves: Any) -> None:
    proofs = [proves(set()) for _ in range(Stillness.LOOKS_ALONE + 3)]
    assert proofs.index(True) == Stillness.LOOKS_ALONE + 1


def test_a_way_that_is_closed_needs_no_new_looks(proves: Any) -> None:
    assert not any(proves(None) for _ in range(100))
    assert proves({(0, 1)})


def test_of_a_rank_that_has_never_spoken_nothing_is_proven(proves: Any) -> None:
    # A rank without our agent may ask a peer that has not started yet, again each second.
    assert not any(proves(set(), spoke=False) for _ in range(100))
