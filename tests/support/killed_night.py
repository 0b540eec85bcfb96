"""A plugin that kills the night which a pytest belongs to, at a moment of this pytest: KILL_NIGHT_AT names it.

A moment is a hook and the number of its call, as `logreport 2`. The night is the parent: it is killed by SIGKILL, and
its pytest dies of that.
"""

from __future__ import annotations

import os
import signal

import pytest

_WANTED, _, _NUMBER = os.environ.get("KILL_NIGHT_AT", "").partition(" ")
#: Each runs a night to its end but for the moment of its death.
MOMENTS = ("configure 1", "collected 1", "running 2", "again 2", "logreport 3", "unconfigure 1")


class _Moments:
    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def reach(self, moment: str) -> None:
        self._counts[moment] = self._counts.get(moment, 0) + 1
        if moment == _WANTED and self._counts[moment] == int(_NUMBER):
            os.kill(os.getppid(), signal.SIGKILL)
            # The kernel kills this process as well, by the signal for the death of its parent.
            while True:
                signal.pause()


_MOMENTS = _Moments()


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    import breakrank.plugin.session_state as active

    bench = active.Bench

    class Counted(bench):
        def run(self, request):
            result = super().run(request)
            _MOMENTS.reach("running")
            if request.plan.case == "turned":
                _MOMENTS.reach("again")
            return result

    active.Bench = Counted
    _MOMENTS.reach("configure")


def pytest_collection_finish():
    _MOMENTS.reach("collected")


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if report.when == "call":
        _MOMENTS.reach("logreport")


def pytest_unconfigure():
    _MOMENTS.reach("unconfigure")
