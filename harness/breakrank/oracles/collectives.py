"""Objects to the first collective that breaks its law, or that ranks called differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from breakrank.analysis.collective_laws import breach, message_breach, overflow
from breakrank.analysis.collectives import Call, Group, groups, messages
from breakrank.analysis.divergence import WINDOW, Gap, Swap, parting
from breakrank.analysis.groupings import find_unlike
from breakrank.analysis.mismatch import TRAITS, mismatch, odd_ranks
from breakrank.analysis.wait_for import Ledger
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding, listed, name_ranks
from breakrank_agent.protocol.events import RankLine

PROPERTY = "collectives"

#: The mismatches that are possible between the sender and the receiver of a message.
_OF_A_MESSAGE = ("dtype mismatch", "shape mismatch")

#: The most ranks that a sentence names one by one.
_NAMED = 8

_Calls = Mapping[int, Call]


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Follow each group, collective by collective, and each way of messages, up to the first that is wrong.

    Later faults may be its consequences, so that an attempt has one finding. Different call sites alone are no finding:
    ranks may have branches of their own. If a broken law or a mismatch shows a fault, the call sites explain it.
    """
    found, judged = [], False
    models = {g.name: g for g in groups(control, 0)} if control is not None else {}
    ways = {(g.name, g.ranks): g for g in messages(control, 0)} if control is not None else {}
    for attempt in history.attempts:
        here, there = groups(history, attempt), messages(history, attempt)
        judged = judged or any(_has_laws(group) for group in [*here, *there])
        failed = not all(lived.ended_well for lived in history.attempt(attempt))
        wrong = [w for g in here for w in _first(_in_group(g, models.get(g.name), failed))]
        wrong += [w for g in there for w in _first(_in_messages(g, ways.get((g.name, g.ranks))))]
        found += [w.finding(attempt) for w in sorted(wrong, key=lambda w: (w.step, w.time))[:1]]
        found += [] if wrong or _hung(history, attempt) else _unlike_groups(history.attempt(attempt))
        found += [] if wrong else _overflows(here, history.attempt(attempt))
    if not judged and not found:
        raise Abstain("no collective is on record with what it read and wrote")
    return found


def _hung(history: History, attempt: int) -> bool:
    return any(event["attempt"] == attempt for event in history.seen("hung"))


def _unlike_groups(ranks: Sequence[RankHistory]) -> list[Finding]:
    """Return the finding that ranks made several groups in one call of `new_group`, and came out of it all the same."""
    ledgers = {lived.rank: Ledger() for lived in ranks}
    for lived in ranks:
        made: list[RankLine] = [*lived.of_kind("rendezvous"), *lived.of_kind("grouping")]
        for event in sorted(made, key=lambda event: event["n"]):
            ledgers[lived.rank].take(event)
    unlike = find_unlike(ledgers)
    if unlike is None:
        return []
    whose = unlike.odd or tuple(sorted(ledgers))
    return [Finding("collectives", "new_group mismatch", whose, 0, ranks[0].attempt, evidence={"shown": unlike.said})]


def _overflows(here: Sequence[Group], ranks: Sequence[RankHistory]) -> list[Finding]:
    """Return the finding that finite numbers of all ranks add up to an infinity, the first of each attempt.

    A scaler of the loss tries large scales, and skips the steps whose sums overflow: that is no finding.
    """
    if any(lived.of_kind("scaler") for lived in ranks):
        return []
    found = []
    for group in here:
        for position in range(min(map(len, group.calls.values()))):
            calls = {rank: own[position] for rank, own in group.calls.items()}
            how = overflow(calls, group.ranks)
            if how:
                facts = {"how": how, "dtype": calls[group.ranks[0]].dtype}
                found.append(_Wrong("sum overflowed", tuple(sorted(calls)), calls, facts))
                break
    return [one.finding(ranks[0].attempt) for one in sorted(found, key=lambda one: (one.step, one.time))[:1]]


def _has_laws(group: Group) -> bool:
    return any(call.inputs is not None for calls in group.calls.values() for call in calls)


def _first(wrong: Iterator[_Wrong]) -> list[_Wrong]:
    one = next(wrong, None)
    return [] if one is None else [one]


class _Wrong(NamedTuple):
    """A fault in the calls at one position of a group."""

    cause: str
    ranks: tuple[int, ...]
    calls: _Calls
    facts: dict[str, Any]

    @property
    def step(self) -> int:
        """The step of the call; if ranks are in several steps, the first of them."""
        return min(call.step for call in self.calls.values())

    @property
    def time(self) -> float:
        """The time at which the first rank called it."""
        return min(call.time for call in self.calls.values())

    def finding(self, attempt: int) -> Finding:
        """Return it as the oracle's finding."""
        shown = [*self.ranks, *(rank for rank in sorted(self.calls) if rank not in self.ranks)]
        places = tuple(f"rank {rank}: {self.calls[rank].words()}" for rank in shown if rank in self.calls)
        one = self.calls[min(self.calls)]
        others = [rank for rank in sorted(self.calls) if rank not in self.ranks]
        facts = {"op": one.name, "number": one.number, "site": one.site or "no line of its own"}
        evidence = {**facts, "group": one.group, "others": _name(others) if others else "others", **self.facts}
        evidence["callers"] = len(self.calls)
        return Finding("collectives", self.cause, self.ranks, self.step, attempt, places[:8], evidence)


def _in_group(group: Group, model: Group | None, failed: bool) -> Iterator[_Wrong]:
    """Yield what is wrong with a group's collectives, in their order; last what may be, if the job `failed`."""
    suspected: _Wrong | None = None
    for position in range(max(map(len, group.calls.values()))):
        calls = {rank: own[position] for rank, own in group.calls.items() if position < len(own)}
        # For that reason it gathers what is wrong.
        yield from _overlap(calls)
        unlike = mismatch(calls) if len(calls) > 1 else None
        broken = None if unlike else breach(calls, group.ranks)
        proven = unlike is not None or broken is not None
        order = _order(group, position, calls, model, proven)
        if proven and suspected is not None:
            yield suspected
        elif order is not None:
            yield order
        elif unlike is not None:
            odd = odd_ranks(unlike.values, group, position, model, TRAITS[unlike.cause])
            yield _Wrong(unlike.cause, odd, calls, {"held": _held(unlike.values, calls, odd)})
        elif broken is not None:
            yield from _changed_in_flight(calls)
            yield _lawless(group, position, calls, model, broken.ranks, broken.how)
        else:
            yield from _looped(group, position, calls, model)
        yield from _overrun(calls)
        if suspected is None:
            suspected = _suspect(group, position, calls, model)
            parted = None if suspected or not failed or model else _order(group, position, calls, None, True)
            if parted is not None:
                # Of collectives alike nothing else shows that they were paired with others than they belong to.
                yield _apart(group, position, calls, parted)
                return


def _looped(group: Group, position: int, calls: _Calls, model: Group | None) -> Iterator[_Wrong]:
    """Yield that ranks go through the same loop in several orders, where each step comes to the same in the end."""
    loops = {rank: call.loop for rank, call in calls.items()}
    if _one(loops) or not all(loops.values()) or len({(call.place, call.step) for call in calls.values()}) > 1:
        return
    one = calls[min(calls)]
    stretches = [[c.loop for c in group.calls[rank] if (c.place, c.step) == (one.place, one.step)] for rank in calls]
    if len({tuple(sorted(stretch)) for stretch in stretches}) == 1 and len(set(stretches[0])) > 1:
        odd = odd_ranks(loops, group, position, model, lambda call: call.loop)
        yield _Wrong("order mismatch", odd, calls, {"held": _held(loops, calls, odd)})


def _apart(group: Group, position: int, calls: _Calls, order: _Wrong) -> _Wrong:
    """Return that ranks part in the order of their calls; of all that called, if nothing tells them apart."""
    places = {rank: call.place for rank, call in calls.items()}
    odd = odd_ranks(places, group, position, None, lambda call: call.place)
    if len(odd) < len(calls):
        return order
    return _Wrong("calls misaligned", odd, calls, {"held": _held(_names(calls), calls, odd)})


def _suspect(group: Group, position: int, calls: _Calls, model: Group | None) -> _Wrong | None:
    """Return that ranks part here in the order of their calls, where those of the control were at one place.

    A call that is left out among others of its kind is paired with the next one, and shows later.
    """
    there = {rank: own[position].place for rank, own in model.calls.items() if position < len(own)} if model else {}
    return _order(group, position, calls, model, True) if there.keys() >= calls.keys() and _one(there) else None


def _one(places: Mapping[int, Any]) -> bool:
    return len(set(places.values())) == 1


def _in_messages(way: Group, model: Group | None) -> Iterator[_Wrong]:
    """Yield what is wrong with the messages from one rank to another, in their order."""
    sender, receiver = way.ranks
    for position in range(min(map(len, way.calls.values()))):
        calls = {rank: way.calls[rank][position] for rank in way.ranks}
        facts = {"op": f"the message from rank {sender} to rank {receiver}, number"}
        unlike = mismatch(calls, _OF_A_MESSAGE)
        broken = message_breach(calls[sender], calls[receiver])
        if unlike is not None:
            odd = odd_ranks(unlike.values, way, position, model, TRAITS[unlike.cause])
            yield _Wrong(unlike.cause, odd, calls, {**facts, "held": _held(unlike.values, calls, odd)})
        elif broken is not None:
            yield from _changed_in_flight(calls)
            yield _Wrong("wrong collective result", broken.ranks, calls, {**facts, "how": broken.how})
        yield from _overrun(calls)


def _overlap(calls: _Calls) -> Iterator[_Wrong]:
    """Yield that a collective writes several ranks' tensors to one memory, where the last one to come is left."""
    alike = tuple(rank for rank, call in sorted(calls.items()) if call.overlap)
    if alike:
        yield _Wrong("outputs overlap", alike, calls, {"site": calls[alike[0]].site})


def _changed_in_flight(calls: _Calls) -> Iterator[_Wrong]:
    """Yield that the program changed what a call reads before it was over, for which others may get what is wrong."""
    yield from (wrong for wrong in _overrun(calls) if wrong.cause == "changed in flight")


def _overrun(calls: _Calls) -> Iterator[_Wrong]:
    """Yield that a collective changed an input, or memory beside a tensor; until a work is over, the program did."""
    # To a reduce, the tensors of ranks other than the root are room to work in.
    kept = {rank: call.kept for rank, call in calls.items() if call.op != "reduce_" or rank == call.root}
    touched = tuple(sorted(rank for rank, whole in kept.items() if whole is False))
    if touched:
        cause = "changed in flight" if all(calls[rank].asked for rank in touched) else "buffer overrun"
        yield _Wrong(cause, touched, calls, {"site": calls[touched[0]].site})


def _lawless(
    group: Group, position: int, calls: _Calls, model: Group | None, ranks: tuple[int, ...], how: str
) -> _Wrong:
    """Return why a law is broken although all ranks called the same: another layout, if that can be seen."""
    layouts = {rank: _layout(call) for rank, call in calls.items()}
    if len(set(layouts.values())) == 1:
        return _Wrong("wrong collective result", ranks, calls, {"how": how, "site": calls[ranks[0]].site})
    odd = odd_ranks(layouts, group, position, model, _layout)
    return _Wrong("layout mismatch", odd, calls, {"held": _held(layouts, calls, odd), "how": how})


def _layout(call: Call) -> str:
    return f"strides {' + '.join(str(stride) for stride in call.strides)}" if call.strides else "contiguous tensors"


def _held(values: Mapping[int, str], calls: _Calls, odd: Sequence[int]) -> str:
    """Say what each rank had, and where in the code; the odd ones first. Ranks at several lines called other things."""
    kinds: dict[tuple[str, str, str], list[int]] = {}
    for rank in [*odd, *(rank for rank in sorted(values) if rank not in odd)]:
        kinds.setdefault((values[rank], calls[rank].name, calls[rank].site), []).append(rank)
    sites = {calls[rank].site for rank in values}
    if len(sites) > 1 and all(sites):
        first, *rest = [
            f"{_name(ranks)} called {name} ({site}){'' if value == name else f' with {value}'}"
            for (value, name, site), ranks in kinds.items()
        ]
        return f"{first}, where {listed(rest)}"
    return ", ".join(
        f"{_name(ranks)} {'has' if len(ranks) == 1 else 'have'} {value}{f' ({site})' if site else ''}"
        for (value, _, site), ranks in kinds.items()
    )


def _name(ranks: Sequence[int]) -> str:
    """Name ranks, or say how many they are."""
    return name_ranks(ranks) if len(ranks) <= _NAMED else f"{len(ranks)} ranks"


# --- the order of calls


def _order(group: Group, position: int, calls: _Calls, model: Group | None, proven: bool) -> _Wrong | None:
    """Return that ranks called in another order, or left one out, if their call sites show it.

    Unless it is `proven` that something is wrong, the law must be broken for what was called at one line.
    """
    places = {rank: call.place for rank, call in calls.items()}
    if len(set(places.values())) == 1 or not all(site for _, site in places.values()):
        return None
    odd = odd_ranks(places, group, position, model, lambda call: call.place)
    even = [rank for rank in sorted(places) if rank not in odd] or sorted(places)
    first = even[0]
    for rank in sorted(places):
        if places[rank] == places[first]:
            continue
        own, other = ([c.place for c in group.calls[r][position : position + WINDOW + 1]] for r in (first, rank))
        parted = parting(own, other)
        wrong: _Wrong | None = None
        if isinstance(parted, Swap):
            wrong = _Wrong("order mismatch", odd, calls, {"held": _held(_names(calls), calls, odd)})
            lines = _swapped(group, position, parted.length, places)
        elif parted:
            gap = next((g for g in parted if (rank if g.in_second else first) in odd), parted[0])
            wrong = _left_out(calls, places, first, rank, gap, odd)
            lines = _shifted(group, position, gap, places[first], places)
        elif proven and len(odd) < len(places) and places[rank] in [c.place for c in group.calls[first]]:
            return _Wrong("calls misaligned", odd, calls, {"held": _held(_names(calls), calls, odd)})
        if wrong is not None and (proven or any(breach(line, group.ranks) for line in lines)):
            return wrong
    return None


def _names(calls: _Calls) -> dict[int, str]:
    return {rank: call.name for rank, call in calls.items()}


def _left_out(
    calls: _Calls, places: Mapping[int, Any], first: int, second: int, gap: Gap, odd: Sequence[int]
) -> _Wrong:
    """Return that some ranks left a call out; where those that did not are the odd ones, that they added it."""
    lacks, has = (second, first) if gap.in_second else (first, second)
    without = tuple(sorted(rank for rank in places if places[rank] == places[lacks]))
    within = tuple(sorted(rank for rank in places if places[rank] == places[has]))
    facts = {"op": calls[has].name, "number": calls[has].number, "site": calls[has].site}
    if set(odd) == set(within):
        return _Wrong("collective added", within, calls, {**facts, "others": _name(without)})
    return _Wrong("collective skipped", without, calls, {**facts, "others": _name(within)})


def _swapped(group: Group, position: int, length: int, places: Mapping[int, Any]) -> Iterator[dict[int, Call]]:
    """Yield, for each line in a stretch of code that ranks went through in several orders, its call by each rank."""
    windows = {rank: group.calls[rank][position : position + length] for rank in places}
    counts = {rank: Counter(call.place for call in window) for rank, window in windows.items()}
    if len({frozenset(count.items()) for count in counts.values()}) > 1:
        return
    for place in counts[min(counts)]:
        by_rank = {rank: [c for c in window if c.place == place] for rank, window in windows.items()}
        for calls in zip(*by_rank.values(), strict=True):
            yield dict(zip(by_rank, calls, strict=True))


def _shifted(group: Group, position: int, gap: Gap, first: Any, places: Mapping[int, Any]) -> Iterator[dict[int, Call]]:
    """Yield the calls behind a gap as they belong together: those of ranks without it came earlier by its length."""
    begins = {
        rank: position + (gap.length if (place == first) == gap.in_second else 0) for rank, place in places.items()
    }
    for i in range(WINDOW):
        if any(begin + i >= len(group.calls[rank]) for rank, begin in begins.items()):
            return
        calls = {rank: group.calls[rank][begin + i] for rank, begin in begins.items()}
        if len({call.place for call in calls.values()}) > 1:
            return
        yield calls
