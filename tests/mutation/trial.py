"""A plugin of pytest that tries mutants: tests are collected once, and each mutant runs those that reach it in a fork.

mutmut's own loop starts pytest anew for each mutant, which takes a hundred times as long as the tests themselves.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

#: Seconds of a core after which a mutant is taken for one that never ends: far more than all tests need.
MOST_CPU_S = 60
#: The exit status of a process in which a test failed, and what stands in place of a test where none noticed a mutant.
_FAILED = 1
_SURVIVED = ""


class Trial:
    """Try mutants, a few at a time, and write which test noticed each: a name, or nothing if none did."""

    def __init__(self, mutants: Sequence[Sequence[str]], into: Path, at_once: int) -> None:
        self._mutants, self._into, self._at_once = mutants, into, at_once
        self._running: dict[int, tuple[Sequence[str], int]] = {}
        self._noticed: list[tuple[str, ...]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests once on the code as it is, and then those that reach each mutant."""
        reach = self._reach(session)
        # Forks share memory that nobody writes to; the collector would.
        gc.collect()
        gc.freeze()
        gc.disable()
        self._tell(0)
        for number, mutant in enumerate(self._mutants):
            items = reach.get(mutant[0].partition("__mutmut_")[0], [])
            while len(self._running) >= self._at_once:
                self._reap()
            if items:
                self._start(mutant, items)
            else:
                self._noticed.append((*mutant, _SURVIVED))
            if number % 20 == 19:
                self._tell(number + 1)
        while self._running:
            self._reap()
        self._tell(len(self._mutants))
        return True

    def _reach(self, session: pytest.Session) -> Mapping[str, list[pytest.Item]]:
        """Return for each function the tests that come to it, first those that come to few others."""
        reached: dict[pytest.Item, set[str]] = {}
        set_mutant_under_test("stats")
        for item in session.items:
            state()._stats.clear()
            reports = runtestprotocol(item, log=False, nextitem=None)
            for failed in (report for report in reports if report.failed):
                raise pytest.UsageError(f"{item.nodeid} fails on the code as it is:\n{failed.longreprtext}")
            reached[item] = set(state()._stats)
        set_mutant_under_test("")
        for function in {function for functions in reached.values() for function in functions}:
            _put(f"{function}__mutmut_orig")
        found: dict[str, list[pytest.Item]] = {}
        for item in sorted(reached, key=lambda item: len(reached[item])):
            for function in reached[item]:
                found.setdefault(function, []).append(item)
        return found

    def _start(self, mutant: Sequence[str], items: Sequence[pytest.Item]) -> None:
        """Fork a process that runs tests until one fails; it tells through a pipe which."""
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid:
            os.close(theirs)
            self._running[pid] = (mutant, ours)
            return
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            set_mutant_under_test(mutant[0])
            _put(mutant[0])
            for item in items:
                if any(report.failed for report in runtestprotocol(item, log=False, nextitem=None)):
                    os.write(theirs, item.nodeid.encode())
                    os._exit(_FAILED)
            os._exit(0)
        except BaseException as error:
            os.write(theirs, f"the loop: {type(error).__name__}".encode())
            os._exit(_FAILED)

    def _reap(self) -> None:
        """Wait for one of the processes; whatever ended otherwise than well has noticed its mutant."""
        pid, status = os.wait()
        mutant, pipe = self._running.pop(pid)
        with os.fdopen(pipe, "rb") as told:
            by = told.read().decode()
        code = os.waitstatus_to_exitcode(status)
        self._noticed.append((*mutant, _SURVIVED if code == 0 else by or f"ended by signal {-code}"))

    def _tell(self, tried: int) -> None:
        """Save what is known, so that a call that is cut short can go on, and say how far it is."""
        with self._into.open("a") as lines:
            lines.writelines(json.dumps(one) + "\n" for one in self._noticed)
        self._noticed = []
        print(f"{tried} of {len(self._mutants)} mutants tried", file=sys.__stderr__, flush=True)


def _put(mutant: str) -> None:
    """Put a mutant, or the function as it was, in the place of mutmut's wrapper, which looks for it at each call.

    Methods, and what other modules have imported, keep the wrapper.
    """
    module, _, name = mutant.rpartition(".")
    function = name.partition("__mutmut_")[0]
    if function.startswith("x_"):
        setattr(sys.modules[module], function[2:], getattr(sys.modules[module], name))


def main(names: Path, into: Path, tests: Sequence[str]) -> int:
    """Try the mutants of which a file holds the names; return pytest's exit code."""
    trial = Trial(json.loads(names.read_text()), into, os.cpu_count() or 1)
    # A test that fails is all that is asked for: no explanation, which may take longer than the test itself.
    plain = ["--assert=plain", "--tb=native", "-s", "-p", "no:logging"]
    return pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *plain, *tests], plugins=[trial])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
