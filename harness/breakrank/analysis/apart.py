"""Parameters that each rank means to have for itself, as the person says who knows the script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from breakrank.history.reader import History, RankHistory
from breakrank_agent.protocol.events import NamesEvent, RankLine

#: The words that wrappers put in front of a name.
_WRAPPED = "module."


def set_apart(history: History, patterns: Sequence[str]) -> History:
    """Return the history with the parameters of these patterns as shards, which no other rank has a replica of."""
    if not patterns:
        return history
    ranks = {key: _told(lived, patterns) for key, lived in history.ranks.items()}
    return History(ranks, history.conductor)


def without_match(history: History, patterns: Sequence[str]) -> list[str]:
    """Return the patterns that match no parameter of any rank; none where no names are on record."""
    names = {name for lived in history.last for event in lived.of_kind("names") for name in event["names"]}
    return [pattern for pattern in patterns if names and not any(_matches(name, (pattern,)) for name in names)]


def _told(lived: RankHistory, patterns: Sequence[str]) -> RankHistory:
    events: list[RankLine] = []
    for event in lived.events:
        if event["kind"] == "names":
            chosen = [number for number, name in enumerate(event["names"]) if _matches(name, patterns)]
            told: NamesEvent = {**event, "sharded": sorted({*event.get("sharded", ()), *chosen})}
            events.append(told if told["sharded"] else event)
        else:
            events.append(event)
    return replace(lived, events=tuple(events))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns is for a name, with a wrapper's words or without."""
    bare = name
    while bare.startswith(_WRAPPED):
        bare = bare.removeprefix(_WRAPPED)
    return any(fnmatchcase(name, pattern) or fnmatchcase(bare, pattern) for pattern in patterns)
