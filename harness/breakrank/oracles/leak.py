"""Objects to leaks, which grow at every step: tensors, graphs, hooks, groups, threads, descriptors.

The first steps are left to objects made once (the optimizer's state, caches that fill). Something is suspect when it
grew at each of the last 6 steps, and is found when it grew at each of the last 14: a bounded cache of up to 17 entries
is full by then. A job that is over before a larger cache is full does not tell that cache from a leak. Growth at some
steps only is not seen. If some steps have no census, a step counts when the one before it has one, too; between others
there must be growth as well, and is no further evidence.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding
from breakrank_agent.protocol.events import CensusEvent
from breakrank_agent.protocol.events.alive import ASLEEP

PROPERTY = "memory"

#: Steps that are not judged, and for how many steps something has to grow.
WARM_UP = 3
SUSPECT = 6
SURE = 14
#: Bytes a step below which objects of Python, and tensors, are no leak: a log of what was measured grows, too, and a
#: list of losses for a plot. With a graph behind it such a loss is found by the graph.
LEAST = {"object": 1024, "tensor": 64}

#: From what explains the others to what is explained by them: a group brings descriptors and threads along, a graph
#: keeps tensors. In words, for one and for several.
METERS: Mapping[str, tuple[str, str]] = {
    "group": ("process group", "process groups"),
    "thread": ("thread", "threads"),
    "descriptor": ("descriptor", "descriptors"),
    "trace": ("traced function", "traced functions"),
    "function": ("function", "functions"),
    "graph": ("node of autograd's graph", "nodes of autograd's graph"),
    "variable": ("variable", "variables"),
    "tensor": ("tensor", "tensors"),
    "native thread": ("thread of no Python code", "threads of no Python code"),
    "object": ("object", "objects"),
}
#: Of these the bytes are judged, of the others the number.
BY_BYTES = ("variable", "tensor", "object")


class Key(NamedTuple):
    """A thing that is counted: a meter's site."""

    meter: str
    site: str
    function: str


@dataclass(frozen=True)
class Growth:
    """Something that grew from `since` on, as far as is on record: how many, and how many bytes, more at each step.

    `steps` are those of them that had a census, and the step before as well.
    """

    key: Key
    since: int
    steps: Sequence[int]
    count: float
    size: float

    @property
    def rank_in_report(self) -> tuple[bool, int, float]:
        """The key of the report: growths with a site first, then those that explain others, then larger ones."""
        return not self.key.site, list(METERS).index(self.key.meter), -self.size


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return for each attempt what grew at each of the last steps; ranks on which the same grows share a finding."""
    if not any(lived.of_kind("census") for lived in history.ranks.values()):
        raise Abstain("no census was taken")
    if all(len(judged(lived)) < SURE for lived in history.ranks.values()):
        raise Abstain(_too_short(history))
    findings = []
    for attempt in history.attempts:
        shared: dict[tuple[tuple[Key, ...], int], list[tuple[RankHistory, list[Growth]]]] = {}
        for lived in history.attempt(attempt):
            grown = _without_doubles([g for g in growths(lived) if len(g.steps) >= SURE])
            if grown:
                same = (tuple(g.key for g in grown), grown[0].since)
                shared.setdefault(same, []).append((lived, grown))
        findings += [_finding(leaking, history) for leaking in shared.values()]
    return sorted(findings, key=lambda f: (f.attempt, f.step, f.ranks))


def _too_short(history: History) -> str:
    """Say why nothing can be said, and what is suspect."""
    least = WARM_UP + SURE
    longest = max(len(lived.of_kind("census")) for lived in history.ranks.values())
    suspects = {
        f"{place(g.key)} of rank {lived.rank}"
        for lived in history.ranks.values()
        for g in growths(lived)
        if len(g.steps) >= SUSPECT
    }
    suspect = f"; suspect are {', '.join(sorted(suspects))}" if suspects else ""
    return f"{longest} steps are too few to tell a leak from a cache that fills: it takes {least}{suspect}"


def judged(lived: RankHistory) -> list[CensusEvent]:
    """Return the censuses after the first steps of which the step before has one, too."""
    return [after for before, after in _in_order(lived) if before["step"] + 1 == after["step"] > WARM_UP]


def growths(lived: RankHistory) -> list[Growth]:
    """Return what grew at the last step, and for how long it had grown at every step, what matters most first."""
    censuses = [e for e in lived.of_kind("census") if e["step"] >= WARM_UP]
    steps = [e["step"] for e in judged(lived)]
    tables = [{Key(li["meter"], li["site"], li["function"]): li for li in e["lines"]} for e in censuses]
    found, timers = [], _has_timers(lived)
    for key in tables[-1] if tables else ():
        values = [_value(key, table.get(key)) for table in tables]
        run = sum(1 for _ in itertools.takewhile(lambda p: p[1] > p[0], _backwards(values)))
        if not run or (timers and key.meter == "native thread" and key.function.endswith(ASLEEP)):
            continue
        before, last = tables[-1 - run].get(key), tables[-1][key]
        done = censuses[-1]["step"] - censuses[-1 - run]["step"]
        count, size = ((last[name] - (before[name] if before else 0)) / done for name in ("count", "bytes"))
        if size >= LEAST.get(key.meter, 0):
            since = censuses[-run]["step"]
            found.append(Growth(key, since, [step for step in steps if step >= since], count, size))
    return sorted(found, key=lambda g: g.rank_in_report)


def _has_timers(lived: RankHistory) -> bool:
    """Return whether the rank may have a thread for each of its collectives that sleeps for as long as this may take.

    TensorFlow has, where collectives have a limit. Such threads end: with a limit of 5 s and steps of 50 ms there were
    240 at most, though at steps of 10 ms there were two more after each of 300.
    """
    return any(event["backend"] == "grpc" for event in lived.of_kind("group"))


def _value(key: Key, line: Mapping[str, Any] | None) -> int:
    return 0 if line is None else int(line["bytes" if key.meter in BY_BYTES else "count"])


def _backwards(values: Sequence[int]) -> list[tuple[int, int]]:
    """Return (before, after) of each step, the last step first."""
    return list(itertools.pairwise(values))[::-1]


def _without_doubles(grown: list[Growth]) -> list[Growth]:
    """Leave out the graphs of tensors that are kept themselves."""
    kept = {g.key.site for g in grown if g.key.meter == "tensor"}
    return [g for g in grown if g.key.meter != "graph" or g.key.site not in kept]


def _finding(leaking: Sequence[tuple[RankHistory, list[Growth]]], history: History) -> Finding:
    """Return what is to be said of ranks on which the same grows."""
    lived, grown = leaking[0]
    first = grown[0]
    evidence = {
        "more": _more(first, sum(g.size for g in grown if g.key.meter == "tensor")),
        "made": f"made at {place(first.key)}" if first.key.site else place(first.key),
        "site": first.key.site,
        "function": first.key.function,
        "meter": first.key.meter,
        "suspect_step": first.steps[SUSPECT - 1],
        "sure_step": first.steps[SURE - 1],
        "grown": [
            {**g.key._asdict(), "count_per_step": round(g.count, 2), "bytes_per_step": round(g.size)} for g in grown
        ],
        "limits": _limits(leaking, history.attempt(lived.attempt)),
    }
    ranks = tuple(sorted(one.rank for one, _ in leaking))
    return Finding("leak", "leak", ranks, first.since, lived.attempt, tuple(place(g.key) for g in grown), evidence)


def place(key: Key) -> str:
    """Say where something is made, or what it is."""
    if key.meter == "native thread" and key.function:
        return f"threads named {key.function}"
    return f"{key.site} in {key.function}" if key.site else key.function or METERS[key.meter][1]


def _more(growth: Growth, tensors: float) -> str:
    """Say how much more there is at each step; `tensors` is how many bytes of tensors came with it, itself included."""
    number = f"{growth.count:,.1f}".removesuffix(".0")
    words = METERS[growth.key.meter][number != "1"]
    size = f"{tensors:,.0f} bytes of tensors" if tensors else f"{growth.size:,.0f} bytes" if growth.size else ""
    return f"{number} {words} more" + (f" ({size})" if size else "")


def _limits(leaking: Sequence[tuple[RankHistory, list[Growth]]], ranks: Sequence[RankHistory]) -> list[dict[str, Any]]:
    """Return each limit of the machine or of the system that this comes to, at which step, and how long that takes."""
    lived, grown = leaking[0]
    last = lived.of_kind("census")[-1]
    given = lived.of_kind("census")[0].get("limits", {})
    seconds = _seconds_per_step(lived)
    files = sum(g.count for g in grown if g.key.meter == "descriptor")
    size = sum(g.size for _, all_grown in leaking for g in all_grown)
    resident = sum(int(one.of_kind("census")[-1]["rss"]) for one in ranks if one.of_kind("census"))
    found = []
    for name, used, per_step in (("descriptors", last.get("descriptors", 0), files), ("bytes", resident, size)):
        if per_step > 0 and given.get(name, 0) > used:
            steps = (given[name] - used) / per_step
            found.append({
                "of": name,
                "limit": given[name],
                "per_step": round(per_step),
                "step": last["step"] + int(steps),
                "seconds": round(steps * seconds, 1),
            })  # fmt: skip
    return found


def _seconds_per_step(lived: RankHistory) -> float:
    """Return how long the rank's steps took, in the median."""
    times = [(after["t"] - before["t"]) / (after["step"] - before["step"]) for before, after in _in_order(lived)]
    return statistics.median(times or [0.0])


def _in_order(lived: RankHistory) -> Iterator[tuple[CensusEvent, CensusEvent]]:
    """Yield each census and the one after it."""
    return itertools.pairwise(lived.of_kind("census"))
