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
from breakrank.analysis.faint_gradients import counts, reach, straying
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
    """A part of the parameters on one rank: its squared norm, and its elements, None where nothing says it.

    Its first gradient had so many elements that were 0, and so many that may be rounding; None where nothing says it.
    """

    rank: int
    square: float
    size: int | None
    faint: tuple[int, int] | None


class Pair(NamedTuple):
    """A part that can be compared: the ranks that hold it, its norm there, that of one rank, and elements that stray.

    The name is empty of all parameters together. Elements stray whose gradient is rounding on both sides.
    """

    name: str
    ranks: tuple[int, ...]
    norm: float
    other: float
    stray: int


#: The parts of the parameters by name, as each rank has them.
Parts = dict[str, list[Held]]


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Compare the norms of the parameters, part by part, after each step, within what rounding explains.

    A sum over several ranks is rounded in another order than one rank's, and every step builds on the one before. A
    tolerance that the terms give replaces this bound. Both are relative to the norm of all parameters. Elements whose
    gradient is nothing but rounding go their own way, as far as `breakrank.analysis.faint_gradients` has it.
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
    way, compared = reach([*history.last, one], shared[-1]), 0
    for step in shared:
        limit = (terms.tolerance or ULPS * eps * terms.ranks * step) * _norm(alone[step])
        pairs = list(_pairs(here[step], alone[step]))
        parted: dict[str, tuple[int, ...]] = {}
        for pair in pairs:
            if not abs(pair.norm - pair.other) <= limit + way[step] * math.sqrt(pair.stray):
                parted[pair.name] = (*parted.get(pair.name, ()), *pair.ranks)
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
            faint = counts(lived, len(event["norms"]))
            described = _describe(known, step, len(event["norms"]))
            for number, ((name, size), norm) in enumerate(zip(described, event["norms"], strict=True)):
                own[name] += 1
                # Two parts of one rank may have one name: layers of one class, say, that no module has in common.
                named = name if own[name] == 1 else f"{name} ({own[name]})"
                parts.setdefault(named, []).append(
                    Held(lived.rank, norm * norm, size, faint[number] if faint else None)
                )
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


def _pairs(here: Parts, alone: Parts) -> Iterator[Pair]:
    """Yield each part that can be compared.

    If the parts have other names, as those that lie in one flat parameter, only the norm of all is compared.
    """
    if here.keys() == alone.keys():
        for name, (other,) in alone.items():
            for own, norm in _norms(here[name], other.size):
                yield Pair(name, _ranks(own), norm, other.square**0.5, _stray(own, [other]))
        return
    whole = [one for held in alone.values() for one in held]
    size = None if any(one.size is None for one in whole) else sum(one.size or 0 for one in whole)
    every = [one for held in here.values() for one in held]
    if size is not None and all(one.size is not None for one in every):
        for own, norm in _together(every, size):
            yield Pair("", _ranks(own), norm, _norm(alone), _stray(own, whole))


def _ranks(held: Sequence[Held]) -> tuple[int, ...]:
    return tuple(sorted({one.rank for one in held}))


def _stray(held: Sequence[Held], alone: Sequence[Held]) -> int:
    """Return how many elements may stray; none where it is not known of all parts."""
    if any(one.faint is None for one in (*held, *alone)):
        return 0
    here, there = ([one.faint for one in side if one.faint is not None] for side in (held, alone))
    return straying([(sum(still for still, _ in side), sum(faint for _, faint in side)) for side in (here, there)])


def _norms(held: Sequence[Held], size: int | None) -> Iterator[tuple[Sequence[Held], float]]:
    """Yield the norms of a part of this size: of each rank that has the whole, and of all shards put together."""
    shards = [one for one in held if None not in (size, one.size) and one.size != size]
    for one in held:
        if one not in shards:
            yield (one,), one.square**0.5
    if shards and size:
        yield from _together(shards, size)


def _together(shards: Sequence[Held], size: int) -> Iterator[tuple[Sequence[Held], float]]:
    """Yield the norm of the whole that shards make up once, or several times; they may be padded with zeros."""
    elements = sum(one.size or 0 for one in shards)
    times, padding = divmod(elements, size)
    if times and padding < len(shards):
        yield shards, (sum(one.square for one in shards) / times) ** 0.5


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
