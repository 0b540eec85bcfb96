"""Why ranks that wait in `init_process_group` never come together, told from what each said on entering it; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from breakrank.stuck import Stuck
from breakrank.waits import Ledger, Wait
from breakrank_agent.history import Event

#: What ranks must agree on: the field, and the cause where they do not.
_AGREED = (("world", "world size differs"), ("master", "master differs"), ("backend", "backend differs"))
#: What can go wrong if ranks do not agree on it, and nothing else is wrong.
_MAY_DIFFER = (("interface", "interface differs"),)


def explain_meeting(
    ledgers: Mapping[int, Ledger], gone: Collection[int], stopped: Collection[int], usual: Mapping[str, Any]
) -> Stuck | None:
    """Return why the ranks that wait in the rendezvous never come together; None if nothing is known against it.

    `usual` is what their launcher told all of them: it decides who is odd where there is no majority.
    """
    entered = {rank: ledger.meetings[-1] for rank, ledger in ledgers.items() if ledger.meetings}
    inside = {rank for rank, ledger in ledgers.items() if ledger.meeting is not None and rank not in gone}
    waits = {rank: Wait(_as_wait(entered[rank])) for rank in sorted(inside)}
    if not inside:
        return None
    for name, why in _AGREED:
        odd = _odd({rank: event.get(name) for rank, event in entered.items()}, usual.get(name))
        if odd is not None:
            return Stuck(why, odd, waits)
    twice = _twice(entered)
    if twice:
        return Stuck("rank twice", twice, waits)
    world = max(int(event["world"]) for event in entered.values())
    missing = sorted(set(range(world)) - {int(event["rank"]) for event in entered.values()})
    for who, why in ((stopped, "peer stopped"), ((), "rank missing")):
        absent = [rank for rank in missing if rank in who] if who else missing
        if absent and (who or why == "rank missing"):
            return Stuck(why, tuple(absent), waits)
    for name, why in _MAY_DIFFER:
        odd = _odd({rank: event.get(name) for rank, event in entered.items()}, usual.get(name))
        if odd is not None:
            return Stuck(why, odd, waits)
    left = sorted(set(entered) & set(gone))
    return Stuck("peer ended", tuple(left), waits) if left else None


def _odd(said: Mapping[int, Any], usual: Any) -> tuple[int, ...] | None:
    """Return who said something else than most, or than is usual; None if all said the same."""
    counts = Counter(said.values()).most_common(2)
    if len(counts) < 2:
        return None
    right = counts[0][0] if counts[0][1] > counts[1][1] else usual
    odd = tuple(sorted(rank for rank, value in said.items() if value != right))
    return odd if len(odd) < len(said) else ()


def _twice(entered: Mapping[int, Event]) -> tuple[int, ...]:
    """Return the ranks that came under a number which is another's own."""
    numbers = Counter(int(event["rank"]) for event in entered.values())
    return tuple(sorted(r for r, e in entered.items() if numbers[int(e["rank"])] > 1 and int(e["rank"]) != r))


def _as_wait(event: Event) -> Event:
    """Return the entry into the rendezvous as what a rank waits in."""
    said = f"rank {event['rank']} of {event['world']} at {event['master']}"
    return {**event, "point": "start", "op": "init_process_group", "group": "", "said": said}
