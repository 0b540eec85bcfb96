"""The positions of the ranks when they were ended: the user's own lines, folded from their stacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from breakrank.history.reader import History
from breakrank.host.stacks import Stack, parse_dump
from breakrank.verdict import name_ranks

#: How many of the user's frames are shown: the innermost ones.
_FRAMES = 4


def draw_stood(history: History, verdict: Mapping[str, Any]) -> list[str]:
    """Return one line a place, with the ranks that stood there; nothing unless ranks had to be ended."""
    if verdict["outcome"] != "HUNG":
        return []
    places: dict[str, list[int]] = {}
    for event in history.seen("stacks"):
        if event["attempt"] == history.attempts[-1]:
            for stack in parse_dump(event["text"]):
                if stack.main or stack.own:
                    places.setdefault(_line(stack), []).append(event["rank"])
    return [f"{name_ranks(ranks)}  {line}" for line, ranks in places.items()]


def _line(stack: Stack) -> str:
    frames = stack.place.frames[-_FRAMES:]
    inside = f", in {stack.place.wait.name}" if stack.place.wait else ""
    path = " > ".join(f"{frame.function} ({frame.where})" for frame in frames)
    return f"{'' if stack.main else 'another thread: '}{path}{inside}"
