"""Diagnose a rendezvous that never completes, from what each rank said on entering it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from breakrank.analysis.hang import Stuck
from breakrank.analysis.wait_for import Ledger, Wait
from breakrank.verdict import name_ranks
from breakrank_agent.protocol.events import PointEvent, RendezvousEvent

#: The fields on which ranks must agree: each with its cause if they differ, and a clause about the odd rank.
_AGREED = (
    ("world", "world size mismatch", "came with another world size"),
    ("master", "master mismatch", "came to another master"),
    ("backend", "backend mismatch", "came with another backend"),
)
#: The fields on which ranks may differ, but which are the likely cause if nothing else is wrong. Workers of TensorFlow
#: meet at the address of the first worker. They use the other addresses of their lists from the first collective on.
_MAY_DIFFER = (
    ("cluster", "cluster mismatch", "came with another list of workers"),
    ("interface", "interface mismatch", "came on another interface"),
    ("proxy", "proxy in path", "asks a proxy for the way to its peers"),
)
#: The backend of a CPU's collectives if a rank names none.
_USUAL_BACKEND = "gloo"

Ledgers = Mapping[int, Ledger]
#: The entry of each rank into the rendezvous, by rank.
Entered = Mapping[int, RendezvousEvent]
#: A cause, the ranks responsible, and the evidence against them; an empty cause if nothing is wrong.
Broken = tuple[str, tuple[int, ...], str]
Rule = Callable[[Ledgers, Entered, Mapping[str, Any]], Broken]
_HOLDS: Broken = ("", (), "")


def explain_meeting(
    ledgers: Ledgers, gone: Collection[int], stopped: Collection[int], usual: Mapping[str, Any]
) -> Stuck | None:
    """Return why the ranks that wait in the rendezvous never come together; None if nothing is known against it.

    `usual` is what their launcher told all of them: it decides who is odd where there is no majority.
    """
    entered = {rank: ledger.meetings[-1] for rank, ledger in ledgers.items() if ledger.meetings}
    entered = {rank: event for rank, event in entered.items() if not _full(event, entered)}
    inside = {rank for rank, ledger in ledgers.items() if ledger.meeting and rank in entered and rank not in gone}
    waits = {rank: Wait(_as_wait(entered[rank])) for rank in sorted(inside)}
    if not inside:
        return None
    for rule in (_disagree(_AGREED), _twice, _missing):
        why, odd, shown_by = rule(ledgers, entered, usual)
        if why:
            lost = set(odd) & set(stopped) if why == "rank missing" else set()
            return Stuck("peer stopped" if lost else why, tuple(sorted(lost)) or odd, waits, shown_by)
    return None


def suspect_meeting(ledgers: Ledgers) -> Stuck | None:
    """Return what is likely to keep apart ranks that have all come, and nothing else is known against; no proof."""
    inside = {rank: ledger.meeting for rank, ledger in ledgers.items() if ledger.meeting is not None}
    why, odd, shown_by = _disagree(_MAY_DIFFER)(ledgers, inside, {"proxy": ""})
    return Stuck(why, odd, waits_in_meeting(ledgers), shown_by) if why else None


def waits_in_meeting(ledgers: Ledgers) -> dict[int, Wait]:
    """Return what the ranks wait in that are in the rendezvous."""
    return {rank: Wait(_as_wait(ledger.meeting)) for rank, ledger in ledgers.items() if ledger.meeting is not None}


def _full(event: RendezvousEvent, entered: Entered) -> bool:
    """Return whether all have come to the meeting of this entry: a job may have several, with several masters."""
    alike = [e for e in entered.values() if all(_said(e, name) == _said(event, name) for name, _, _ in _AGREED)]
    return {int(e["rank"]) for e in alike} == set(range(int(event["world"])))


def _said(event: RendezvousEvent, name: str) -> Any:
    """Return what a rank said; of the backend, which one it meets the others by, in however many ways it is named.

    `gloo`, `cpu:gloo,cuda:nccl` and no name at all come together (torch 2.13): the backend of the CPU meets at once,
    that of a card when it is first used.
    """
    said = event.get(name)
    if name != "backend":
        return said
    by_device = dict(part.split(":", 1) for part in str(said).split(",") if ":" in part)
    return by_device.get("cpu", said) or _USUAL_BACKEND


def _disagree(fields: Sequence[tuple[str, str, str]]) -> Rule:
    """Return the rule that all who entered have said the same."""

    def rule(ledgers: Ledgers, entered: Entered, usual: Mapping[str, Any]) -> Broken:
        for name, why, shown_by in fields:
            odd = _odd({rank: _said(event, name) for rank, event in entered.items()}, usual.get(name))
            if odd is not None:
                return why, odd, shown_by
        return _HOLDS

    return rule


def _twice(ledgers: Ledgers, entered: Entered, usual: Mapping[str, Any]) -> Broken:
    """Find those that came under a number which is another's own."""
    numbers = Counter(int(event["rank"]) for event in entered.values())
    odd = tuple(sorted(r for r, e in entered.items() if numbers[int(e["rank"])] > 1 and int(e["rank"]) != r))
    return ("duplicate rank", odd, f"came as rank {entered[odd[0]]['rank']}, too") if odd else _HOLDS


def _missing(ledgers: Ledgers, entered: Entered, usual: Mapping[str, Any]) -> Broken:
    """Find the numbers under which nobody came."""
    world = max(int(event["world"]) for event in entered.values())
    missing = tuple(sorted(set(range(world)) - {int(event["rank"]) for event in entered.values()}))
    if not missing:
        return _HOLDS
    never = [rank for rank in missing if rank not in ledgers]
    shown_by = f"no process was started as {name_ranks(never)}" if never else "never came to the rendezvous"
    return "rank missing", missing, shown_by


def _odd(said: Mapping[int, Any], usual: Any) -> tuple[int, ...] | None:
    """Return who said something else than most, or than is usual; None if all said the same."""
    counts = Counter(said.values()).most_common(2)
    if len(counts) < 2:
        return None
    right = counts[0][0] if counts[0][1] > counts[1][1] else usual
    odd = tuple(sorted(rank for rank, value in said.items() if value != right))
    return odd if len(odd) < len(said) else ()


def _as_wait(event: RendezvousEvent) -> PointEvent:
    """Return the entry into the rendezvous as what a rank waits in."""
    said = f"rank {event['rank']} of {event['world']} at {event['master']}"
    return PointEvent(
        kind="point",
        point="start",
        visit=1,
        op=event.get("op", "init_process_group"),
        group="",
        said=said,
        n=event["n"],
        seq=event["seq"],
        step=event["step"],
        t=event["t"],
    )
