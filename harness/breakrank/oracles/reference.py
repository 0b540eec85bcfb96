"""Objects to parallel training that is not the training of one rank on the same global batches.

Ranks that hold shards are put together: the squares of the norms of all shards of a parameter make that of the whole.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from breakrank.analysis.digests import by_value
from breakrank.analysis.gradient_scale import factors
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding, listed, name_ranks
from breakrank_agent.protocol.events import NamesEvent, PayloadEvent

PROPERTY = "gradients and optimizer"

#: The units in the last place that a step may add to the error for each rank whose gradient is added.
ULPS = 8
#: The words that wrappers, compilers and stages of a pipeline put into the name of a parameter.
_WRAPPING = re.compile(r"^stage \d+: |_fsdp_wrapped_module\.|_orig_mod\.|_checkpoint_wrapped_module\.|^module\.")


class Held(NamedTuple):
    """A part of the parameters on one rank: its squared norm, and its elements, None where nothing says it."""

    rank: int
    square: float
    size: int | None


#: The parts of the parameters by name, as each rank has them.
Parts = dict[str, list[Held]]


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Compare the norms of the parameters, part by part, after each step, within what rounding explains.

    A sum over several ranks is rounded in another order than one rank's, and every step builds on the one before. A
    tolerance that the terms give replaces this bound. Both are relative to the norm of all parameters.
    """
    if terms.reference is None:
        raise Abstain("there is no run of the same training as one rank")
    if len(history.attempts) != 1:
        raise Abstain("the job was started again, and its steps are not those of one run")
    (one,) = terms.reference.last
    alone = _by_step([one])
    here = _by_step([lived for lived in history.last if lived.ended_well])
    shared = sorted(here.keys() & alone.keys())
    if not shared:
        raise Abstain("no rank ended well and recorded its parameters, here and as one rank")
    eps = max((e["eps"] for e in one.of_kind("names")), default=0.0)
    compared = 0
    for step in shared:
        limit = (terms.tolerance or ULPS * eps * terms.ranks * step) * _norm(alone[step])
        pairs = list(_pairs(here[step], alone[step]))
        parted: dict[str, tuple[int, ...]] = {}
        for name, ranks, norm, other in pairs:
            if not abs(norm - other) <= limit:
                parted[name] = (*parted.get(name, ()), *ranks)
        if parted:
            related = factors(history.last, one) if step == shared[0] else {}
            return [_finding(history, step, parted, related)]
        compared += len(pairs)
    if not compared:
        raise Abstain("the ranks hold neither the whole of what one rank trains nor shards that make it up")
    return []


def _by_step(ranks: Sequence[RankHistory]) -> dict[int, Parts]:
    """Return what each rank has of each part, by step."""
    found: dict[int, Parts] = {}
    for lived in ranks:
        known = lived.of_kind("names")
        for event in (e for e in lived.payloads("step") if "norms" in e):
            step = int(event["step"])
            parts, own = found.setdefault(step, {}), Counter[str]()
            for (name, size), norm in zip(_describe(known, step, len(event["norms"])), event["norms"], strict=True):
                own[name] += 1
                # Two parts of one rank may have one name: layers of one class, say, that no module has in common.
                named = name if own[name] == 1 else f"{name} ({own[name]})"
                parts.setdefault(named, []).append(Held(lived.rank, norm * norm, size))
    return found


def _describe(known: Sequence[NamesEvent], step: int, count: int) -> list[tuple[str, int | None]]:
    """Return the name and the size of each of so many parts at the end of a step."""
    by_then = [event for event in known if event["step"] <= step][-1:] or known[:1]
    if not by_then or len(by_then[0]["names"]) != count:
        return [(f"parameter {number}", None) for number in range(count)]
    names = by_then[0]
    sizes: Sequence[int | None] = names.get("sizes") or [None] * count
    return [(_WRAPPING.sub("", name), size) for name, size in zip(names["names"], sizes, strict=True)]


def _norm(alone: Parts) -> float:
    """Return the norm of all parameters of the one rank."""
    return math.sqrt(sum(one.square for held in alone.values() for one in held))


def _pairs(here: Parts, alone: Parts) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
    """Yield the name of each part that can be compared, the ranks that hold it, its norm there and that of one rank.

    If the parts have other names, as those that lie in one flat parameter, only the norm of all is compared.
    """
    if here.keys() == alone.keys():
        for name, (other,) in alone.items():
            for ranks, norm in _norms(here[name], other.size):
                yield name, ranks, norm, other.square**0.5
        return
    sizes = [one.size for held in alone.values() for one in held]
    size = None if None in sizes else sum(filter(None, sizes))
    every = [one for held in here.values() for one in held]
    if size is not None and all(one.size is not None for one in every):
        for ranks, norm in _together(every, size):
            yield "", ranks, norm, _norm(alone)


def _norms(held: Sequence[Held], size: int | None) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the norms of a part of this size: of each rank that has the whole, and of all shards put together."""
    shards = [one for one in held if None not in (size, one.size) and one.size != size]
    for one in held:
        if one not in shards:
            yield (one.rank,), one.square**0.5
    if shards and size:
        yield from _together(shards, size)


def _together(shards: Sequence[Held], size: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the norm of the whole that shards make up once, or several times; they may be padded with zeros."""
    elements = sum(one.size or 0 for one in shards)
    times, padding = divmod(elements, size)
    if times and padding < len(shards):
        yield tuple(sorted({one.rank for one in shards})), (sum(one.square for one in shards) / times) ** 0.5


def _finding(
    history: History, step: int, parted: Mapping[str, tuple[int, ...]], related: Mapping[int, float]
) -> Finding:
    """Return the finding.

    Batches of several sizes explain it, where they were averaged as if they were alike, and so do gradients that are
    those of one rank times a number.
    """
    first = next(iter(parted))
    ranks = tuple(sorted({rank for held in parted.values() for rank in held}))
    sizes = {lived.rank: _batch(lived, step) for lived in history.last}
    evidence: dict[str, Any] = {"first": f", in {first} first" if first else ""}
    cause = "reference mismatch"
    if len(set(sizes.values())) > 1:
        cause = "per-rank loss scaling"
        evidence["sizes"] = " and ".join(str(size) for size in sizes.values())
    elif related:
        cause = "gradients scaled"
        ranks = tuple(sorted(related))
        evidence["said"] = listed([f"{factor:.4g} on {name_ranks(own)}" for factor, own in by_value(related).items()])
    return Finding("reference", cause, ranks, step, evidence=evidence)


def _batch(lived: RankHistory, step: int) -> int:
    """Return how many samples the rank loaded in a step."""
    return sum(_samples(event) for event in lived.payloads("load") if event["step"] == step)


def _samples(event: PayloadEvent) -> int:
    return len(event.get("indices") or event.get("samples") or ())
