"""Objects to buffers of replicas, and to averages of their parameters, that part and never come together."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank.analysis.draws import reduce_as_replicas
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding

PROPERTY = "replicas"

#: The fewest forward passes before which buffers differ.
_LEAST = 3


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Compare what forward passes found, and averages after the same update, of ranks that hold replicas.

    Each rank may change its buffers in a step of its own. They are brought into line before a pass, or before a
    validation, or at the end of an epoch: they are alike before one pass at least.
    """
    ranks = history.last
    if not any(lived.of_kind("buffers") or lived.of_kind("average") for lived in ranks):
        raise Abstain("no buffers that change were seen")
    if not reduce_as_replicas(ranks):
        raise Abstain("the ranks hold no replicas of all parameters, or reduce nothing")
    return [*_buffers(history), *_averages(history)]


def _buffers(history: History) -> list[Finding]:
    tables = [{(int(e["step"]), e["train"]): e["buffers"] for e in lived.of_kind("buffers")} for lived in history.last]
    places = sorted(set.intersection(*map(set, tables)))
    apart = [place for place in places if len({table[place] for table in tables}) > 1]
    # In the first step that is looked at, all may still have what they began with.
    together = [place for place in places if place not in apart and apart and place > apart[0]]
    if len(apart) < _LEAST or together:
        return []
    first = next(e["first"] for lived in history.last for e in lived.of_kind("buffers"))
    return _found(history, "buffers differ", apart[0][0], first=first)


def _averages(history: History) -> list[Finding]:
    tables = [{e["number"]: (int(e["step"]), e["average"]) for e in lived.of_kind("average")} for lived in history.last]
    for number in sorted(set.intersection(*map(set, tables))):
        held = [table[number] for table in tables]
        if len({digest for _, digest in held}) > 1 and _alike(history.last, max(step for step, _ in held)):
            return _found(history, "averages differ", max(1, min(step for step, _ in held)), number=number)
    return []


def _alike(ranks: Sequence[RankHistory], until: int) -> bool:
    """Return whether the parameters are alike on all ranks wherever they were digested up to a step."""
    tables = [{e["step"]: e.get("params") for e in lived.payloads("step") if e["step"] <= until} for lived in ranks]
    return all(len({table[step] for table in tables}) == 1 for step in set.intersection(*map(set, tables)))


def _found(history: History, cause: str, step: int, **evidence: int | str) -> list[Finding]:
    ranks = tuple(lived.rank for lived in history.last)
    return [Finding("buffers", cause, ranks, step, history.attempts[-1], evidence=evidence)]
