"""A census of what a rank keeps alive, at the end of each step: only where the oracle `leak` is asked for.

Of sparse steps some have one (`protocol.sampling`), and two neighbours each: what grows at each step grows there.

Each meter counts what is alive by the line of the user's code that made it. Those here need no framework: functions by
where they are defined, other objects of Python by their type, threads by where they were started, descriptors by where
their files were opened. A framework's hook adds its own meters.

The first census freezes the garbage collector's view of everything that is alive by then, which takes a collection and
a walk over the rest from 440 ms to about 2 ms. A frozen object is still freed when nothing refers to it, but not if it
is part of a cycle. Measured on a small network, a whole census takes 1 ms (the median of 200 on two shared cores).
"""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any, Callable, Optional
from weakref import WeakKeyDictionary

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.call_sites import NOWHERE, Site
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.protocol.events.alive import ASLEEP

WAITS_FOR = ""

#: The most lines of one meter in one census: those that have grown most since the first one.
LIMIT = 32

#: One line of a census: meter, site, how many, and their bytes where they can be told (else 0).
Line = tuple[str, Site, int, int]


def install(agent: Agent) -> None:
    """Take censuses at the ends of steps, if somebody asks for them."""
    if "census" not in agent.plan.evidence:
        return
    census = Census(agent)
    agent.services.census = census
    census.meters += [_Objects(census).count, _Threads(census).count, _Descriptors(agent, census).count]
    agent.on.step_end.append(census.take)


class Census:
    """The objects that are alive, by meter and site. Hooks add to `meters`; `sites` finds the user's lines.

    A type of objects that one of `passes` returns true for is not counted as such: the census itself makes such ones,
    or another meter counts them.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.sites = agent.sites
        self.meters: list[Callable[[], list[Line]]] = []
        #: Totals of the meters, such as the bytes of all tensors.
        self.totals: dict[str, int] = {}
        self.passes: list[Callable[[type], bool]] = []
        self.begun = False
        #: Called just before everything that is alive is frozen.
        self.before_freeze: list[Callable[[], None]] = []
        self._first: dict[tuple[str, Site], int] = {}

    def take(self) -> None:
        """Count, and record it, if the step is one of those that have a census."""
        if not self._agent.samples_now():
            return
        began = time.perf_counter()
        with self._agent.quietly():
            gc.collect()
            facts: dict[str, Any] = {}
            if not self.begun:
                self._begin()
                facts["limits"] = _limits()
            try:
                lines = [line for meter in self.meters for line in self._foremost(meter())]
                facts["rss"] = _resident()
            except OSError:
                # The program has no descriptor left, which to count takes one: the step has no census.
                return
        if not self._first:
            self._first = {(meter, site): size or count for meter, site, count, size in lines}
        facts["lines"] = [
            {"meter": meter, "site": site.line, "function": site.function, "count": count, "bytes": size}
            for meter, site, count, size in lines
        ]
        self._agent.record("census", **self.totals, **facts, ms=round(1000 * (time.perf_counter() - began), 3))

    def _begin(self) -> None:
        self.begun = True
        for prepare in self.before_freeze:
            prepare()
        gc.freeze()

    def _foremost(self, lines: list[Line]) -> list[Line]:
        return sorted(lines, key=self._growth, reverse=True)[:LIMIT]

    def _growth(self, line: Line) -> tuple[int, int]:
        meter, site, count, size = line
        return (size or count) - self._first.get((meter, site), 0), size


def add_up(meter: str, found: Iterable[tuple[Site, int, int]]) -> list[Line]:
    """Return one line a site, of (site, how many, their bytes)."""
    sums: dict[Site, list[int]] = {}
    for site, count, size in found:
        total = sums.setdefault(site, [0, 0])
        total[0] += count
        total[1] += size
    return [(meter, site, count, size) for site, (count, size) in sums.items()]


def flat(value: Any, kind: type) -> Iterator[Any]:
    """Yield the things of a kind that an operation returns, by itself or in nested lists."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item, kind)


class _Objects:
    """Objects made since the first census: the user's functions by where they are defined, others by their type."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self._names: dict[type, Optional[Site]] = {}

    def count(self) -> list[Line]:
        """Return the functions by site, and the other objects by type."""
        functions, others = [], []
        for thing in gc.get_objects():
            kind = type(thing)
            site = self._census.sites.of(thing.__code__) if kind is FunctionType else NOWHERE
            if site is not NOWHERE:
                functions.append((site, 1, 0))
                continue
            name = self._names[kind] if kind in self._names else self._name(kind)
            if name is not None:
                others.append((name, 1, sys.getsizeof(thing)))
        return add_up("function", functions) + add_up("object", others)

    def _name(self, kind: type) -> Optional[Site]:
        passed = any(passes(kind) for passes in self._census.passes)
        self._names[kind] = None if passed else Site("", f"{kind.__module__}.{kind.__qualname__}")
        return self._names[kind]


class _Threads:
    """Threads that live, by the line that started them; those of no Python code by their names without numbers."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self._started: WeakKeyDictionary[threading.Thread, Site] = WeakKeyDictionary()
        interpose(threading.Thread, "start", self._note)

    def _note(self, thread: threading.Thread) -> None:
        self._started[thread] = self._census.sites.here()

    def count(self) -> list[Line]:
        """Return the threads of Python by site, and the others by name."""
        ours = threading.enumerate()
        live = [(self._started[t], 1, 0) for t in ours if t in self._started]
        tasks = os.listdir("/proc/self/task")
        self._census.totals["threads"] = len(tasks)
        others = set(tasks) - {str(getattr(thread, "native_id", None)) for thread in ours}
        named = [(Site("", name), 1, 0) for name in map(_name_of_task, sorted(others)) if name]
        return [*add_up("thread", live), *add_up("native thread", named)]


def _name_of_task(task: str) -> str:
    """Return the name that a thread has for the kernel, without numbers; empty if it has ended meanwhile."""
    try:
        with open(f"/proc/self/task/{task}/comm", "rb") as name, open(f"/proc/self/task/{task}/wchan") as place:
            asleep = ASLEEP if place.read().endswith("nanosleep") else ""
            return re.sub(r"\d+", "N", os.fsdecode(name.read()).strip()) + asleep
    except OSError:
        return ""


class _Descriptors:
    """Open descriptors: files by the line that opened them, all others by what they are."""

    def __init__(self, agent: Agent, census: Census) -> None:
        self._census = census
        self._opened: dict[str, Site] = {}

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event == "open" and not agent.busy and isinstance(args[0], (str, bytes)) and agent.here:
                self._opened[os.path.realpath(os.fsdecode(args[0]))] = census.sites.here()

        sys.addaudithook(hook)

    def count(self) -> list[Line]:
        """Return the descriptors."""
        targets = [target for target in map(_target, os.listdir("/proc/self/fd")) if target]
        self._census.totals["descriptors"] = len(targets)
        here = set(targets)
        self._opened = {path: site for path, site in self._opened.items() if path in here}
        return add_up("descriptor", ((self._opened.get(t) or Site("", _sort(t)), 1, 0) for t in targets))


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        # The one by which the folder itself was read.
        return ""


def _sort(target: str) -> str:
    """Return `file`, `socket`, `pipe` and so on."""
    return "file" if target.startswith("/") else target.split(":")[0]


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _limits() -> dict[str, int]:
    """Return what the machine has and what the system allows: bytes of memory, descriptors."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"bytes": memory, "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}
