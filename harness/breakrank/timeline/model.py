"""The parts of a picture: a lane a thread, bars for all that takes time, marks, and meetings of several ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Kinds of bars. An inner phase lies within another one; a strike lasts from its firing until it is over.
PHASE, INNER, COLLECTIVE, MESSAGE, MEETING, STRIKE = "phase", "inner", "collective", "message", "meeting", "strike"
#: The bar that stands for those which a page has no room for.
LEFT_OUT = "left_out"
#: Ends of bars: on record; drawn to the next point of the thread, since the end is on record nowhere; an exception;
#: never, since the rank was ended inside; and nothing is known but that the rank went on.
DONE, NEXT, FAILED, NEVER, UNKNOWN = "done", "next", "failed", "never", "unknown"
MAIN = "main"


class Lane(NamedTuple):
    """A thread of one rank in one attempt. `end` is how the rank ended, in words; only the main thread has it."""

    attempt: int
    rank: int
    thread: str
    end: str = ""


class Bar(NamedTuple):
    """One thing that takes time; times are seconds of the monotonic clock.

    `lane` and `meeting` are positions in the picture; a meeting of -1 is none. `event` is the event that began it.
    """

    lane: int
    start: float
    end: float
    kind: str
    name: str
    step: int
    ending: str
    event: Mapping[str, Any]
    meeting: int = -1


class Mark(NamedTuple):
    """One thing that happens at once. `turn` is its place in a controlled schedule; -1: it has none."""

    lane: int
    time: float
    kind: str
    name: str
    step: int
    event: Mapping[str, Any]
    turn: int = -1


class Meeting(NamedTuple):
    """One collective of a group, or one message. `differs` says in what its members do; empty: they agree.

    `absent` are members of the group that never came.
    """

    attempt: int
    group: str
    number: int
    differs: str = ""
    absent: tuple[int, ...] = ()


class Link(NamedTuple):
    """Two accesses of a finding that are not ordered: positions of marks, and the sentence."""

    one: int
    other: int
    words: str


@dataclass(frozen=True)
class Picture:
    """A history as it is drawn. `zero` is the earliest time, `last` the latest one."""

    lanes: Sequence[Lane] = ()
    bars: Sequence[Bar] = ()
    marks: Sequence[Mark] = ()
    meetings: Sequence[Meeting] = ()
    zero: float = 0.0
    last: float = 0.0
    #: The ranks that a bar waits for, by its position.
    waits: Mapping[int, Sequence[int]] = field(default_factory=dict)
    #: Events of kinds that nothing here draws, and how many there are of each.
    undrawn: Mapping[str, int] = field(default_factory=dict)

    @property
    def turns(self) -> bool:
        """True if a schedule was controlled, so that marks have turns."""
        return any(mark.turn >= 0 for mark in self.marks)
