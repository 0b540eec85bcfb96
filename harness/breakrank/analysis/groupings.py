"""Diagnose groups that ranks do not make alike: torch numbers them, so that all ranks must make all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from breakrank.analysis.digests import by_value, outside_majority
from breakrank.analysis.hang import Stuck
from breakrank.analysis.wait_for import Ledger, Making, find_waits
from breakrank.verdict import listed, name_ranks


def explain_groupings(ledgers: Mapping[int, Ledger]) -> Stuck | None:
    """Return why ranks never come out of the making of a group: they make another one than others under its number.

    None if no rank is in the making of one, or all have made the same as far as they have come.
    """
    inside = [rank for rank, ledger in ledgers.items() if ledger.is_grouping]
    unlike = find_unlike(ledgers) if inside else None
    return Stuck("group mismatch", unlike.odd, find_waits(inside, ledgers), unlike.said) if unlike else None


class Unlike(NamedTuple):
    """The first call of `new_group` in which ranks make several groups: whose is not the one of most, and in words."""

    odd: tuple[int, ...]
    said: str


def find_unlike(ledgers: Mapping[int, Ledger]) -> Unlike | None:
    """Return the first call of `new_group` that ranks do not make alike; None if there is none so far.

    A store serves such groups under one name: whether that comes out well depends on who comes first.
    """
    for position in range(max((len(own.makings) for own in ledgers.values()), default=0)):
        made = {rank: own.makings[position] for rank, own in ledgers.items() if position < len(own.makings)}
        members = {rank: _members(making, ledgers) for rank, making in made.items()}
        if len(set(members.values())) > 1:
            return Unlike(_odd(members), _said(position + 1, made))
    return None


def _members(making: Making, ledgers: Mapping[int, Ledger]) -> tuple[int, ...]:
    return tuple(sorted(ledgers)) if making.ranks is None else making.ranks


def _odd(members: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Return whose group is not the one of most; nobody if each has left the others' groups to the others."""
    if all(rank in made for rank, made in members.items()):
        return ()
    apart = outside_majority(members)
    return tuple(sorted(apart)) if len(apart) < len(members) else ()


def _said(number: int, made: Mapping[int, Making]) -> str:
    """Say what the calls with this number make: `call 1 of new_group makes a group of [0, 1] on rank 0 (x.py:3), …`."""
    kinds = by_value(dict(sorted(made.items())))
    each = [
        f"of {'all ranks' if making.ranks is None else list(making.ranks)} on {name_ranks(ranks)}"
        f"{f' ({making.site})' if making.site else ''}"
        for making, ranks in kinds.items()
    ]
    return f"call {number} of new_group makes a group {listed(each)}"
