"""A plugin of pytest that tries mutants: tests are collected once, and each mutant runs those that reach it in a fork.

mutmut's own loop starts pytest anew for each mutant, which takes a hundred times as long as the tests themselves. Tests
that have noticed a mutant of the same function come first, then those that take least. A mutant that is explained in
`survivors.txt` is not tried on the catalogue's runs, of which all would have to be judged: at worst it counts for one
that nothing notices.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

#: Seconds of a core after which a mutant is taken for one that never ends: so many, and for each second that its tests
#: take on the code as it is; at most far more than all tests need.
LEAST_CPU_S, CPU_S, MOST_CPU_S = 5, 10, 60
#: The exit status of a process in which a test failed, and what stands in place of a test where none noticed a mutant.
_FAILED = 1
_SURVIVED = ""
#: The file whose tests judge the runs of the catalogue again.
_RUNS = "test_verdicts_of_the_catalogue.py"
#: The most tests that are tried first, as they noticed other mutants of the function.
_FIRST = 8


class Trial:
    """Try mutants, a few at a time, and write which test noticed each: a name, or nothing if none did.

    A mutant is its name, a hash of its function, and whether it is explained.
    """

    def __init__(self, mutants: Sequence[tuple[str, str, bool]], into: Path, at_once: int) -> None:
        self._mutants, self._into, self._at_once = mutants, into, at_once
        self._running: dict[int, tuple[str, str, int]] = {}
        #: The time of a core that each test takes.
        self._took: dict[pytest.Item, float] = {}
        #: The tests that have noticed mutants of a function, and how many each.
        self._keen: dict[str, Counter[str]] = {}
        self._noticed: list[tuple[str, ...]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests once on the code as it is, and then those that reach each mutant."""
        reach = self._reach(session)
        # Forks share memory that nobody writes to; the collector would.
        gc.collect()
        gc.freeze()
        gc.disable()
        self._tell(0)
        for number, (name, code, explained) in enumerate(self._mutants):
            while len(self._running) >= self._at_once:
                self._reap()
            function = name.partition("__mutmut_")[0]
            items = [item for item in reach.get(function, ()) if not (explained and item.path.name == _RUNS)]
            if items:
                self._start(name, code, self._ordered(function, items))
            else:
                self._noticed.append((name, code, _SURVIVED))
            if number % 20 == 19:
                self._tell(number + 1)
        while self._running:
            self._reap()
        self._tell(len(self._mutants))
        return True

    def _reach(self, session: pytest.Session) -> Mapping[str, list[pytest.Item]]:
        """Return for each function the tests that come to it, first those that take least."""
        reached: dict[pytest.Item, set[str]] = {}
        set_mutant_under_test("stats")
        for item in session.items:
            state()._stats.clear()
            begun = time.process_time()
            reports = runtestprotocol(item, log=False, nextitem=None)
            for failed in (report for report in reports if report.failed):
                raise pytest.UsageError(f"{item.nodeid} fails on the code as it is:\n{failed.longreprtext}")
            self._took[item] = time.process_time() - begun
            reached[item] = set(state()._stats)
        set_mutant_under_test("")
        for function in {function for functions in reached.values() for function in functions}:
            _put(f"{function}__mutmut_orig")
        found: dict[str, list[pytest.Item]] = {}
        for item in sorted(reached, key=self._took.__getitem__):
            for function in reached[item]:
                found.setdefault(function, []).append(item)
        return found

    def _ordered(self, function: str, items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
        """Return tests in another order: first those that have noticed most mutants of this function."""
        keen = dict(self._keen.get(function, Counter()).most_common(_FIRST))
        return sorted(items, key=lambda item: -keen.get(item.nodeid, 0)) if keen else items

    def _start(self, name: str, code: str, items: Sequence[pytest.Item]) -> None:
        """Fork a process that runs tests until one fails; it tells through a pipe which."""
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid:
            os.close(theirs)
            self._running[pid] = (name, code, ours)
            return
        try:
            usual = sum(map(self._took.__getitem__, items))
            limit = min(MOST_CPU_S, LEAST_CPU_S + round(CPU_S * usual))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            set_mutant_under_test(name)
            _put(name)
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
        name, mutated, pipe = self._running.pop(pid)
        with os.fdopen(pipe, "rb") as told:
            by = told.read().decode()
        code = os.waitstatus_to_exitcode(status)
        if by:
            self._keen.setdefault(name.partition("__mutmut_")[0], Counter())[by] += 1
        self._noticed.append((name, mutated, _SURVIVED if code == 0 else by or f"ended by signal {-code}"))

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
