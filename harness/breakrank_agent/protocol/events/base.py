"""The form of the vocabulary of events: the base classes, and the markers that refine a type.

An event is a JSON object, and a `TypedDict` declares each kind of them. A field has its type, and below that a text
that says its meaning, its unit, and when it is absent. A field that may be absent is `NotRequired[...]`. Fields whose
names are words of Python are declared by a call of `TypedDict`, with the text in `Annotated`.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypedDict, Union

from breakrank_agent.protocol.events.not_required import NotRequired


class AtLeast(NamedTuple):
    """The least value of a number."""

    least: int


class AtMost(NamedTuple):
    """The greatest value of a number."""

    most: int


class OfLength(NamedTuple):
    """The number of items of a list."""

    items: int


#: A count, or a number that begins at 0.
Count = Annotated[int, AtLeast(0)]
#: A number that begins at 1.
Ordinal = Annotated[int, AtLeast(1)]
#: A time that something took.
Duration = Annotated[float, AtLeast(0)]
#: A number of torch that names a rank; a text where torch knows it as a symbol alone, which tells nothing.
RankName = Union[int, str]
#: The most ranks that a job may say it has.
MOST_RANKS = 1 << 16
#: The named places in logical time, as `breakrank_agent.protocol.trigger.POINTS` has them.
PointName = Literal[
    "start", "load", "forward", "backward", "collective", "optimize", "step", "save", "restore", "write", "end"
]


class RankEventBase(TypedDict):
    """The fields of each event that a rank, or a process that it has started, records."""

    n: Count
    """The index of the event in its sequence, from 0."""
    seq: str
    """The sequence: `main`, a helper thread, a loader worker, or a child's, whose names begin with the child's."""
    step: Count
    """The step of the training that the rank is in, from 1; 0 before the first."""
    t: float
    """The time, in seconds of the machine's monotonic clock."""
    cut: NotRequired[str]
    """The field whose text was too long and was replaced by `(cut)`, or `all`; absent in a record of usual length."""


class ConductorEventBase(TypedDict):
    """The fields of each event that the Conductor writes."""

    t: float
    """The time, in seconds of the machine's monotonic clock."""


class AttemptEventBase(ConductorEventBase):
    """The fields of each event of one attempt."""

    attempt: Count
    """The attempt, from 0."""


class OneRankEventBase(AttemptEventBase):
    """The fields of each event that is about one rank."""

    rank: Count
    """The rank that the event is about."""
