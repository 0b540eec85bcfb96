"""Events about what is alive in a rank: objects, tensors and descriptors, line by line, and the C heap."""

from __future__ import annotations

from typing import Literal, TypedDict

from breakrank_agent.protocol.events.base import Count, Duration, RankEventBase
from breakrank_agent.protocol.events.not_required import NotRequired

#: The end of the name of threads that sleep for a set time.
ASLEEP = " (asleep)"


class CensusLine(TypedDict):
    """The things of one sort and from one place that are alive."""

    meter: str
    """The sort: `tensor`, `object`, `thread`, `descriptor` or `group`."""
    site: str
    """The line of the user's code that made it, as `file:line`; empty if it is not known."""
    function: str
    """The function of that line, or a type where the line is not known."""
    count: int
    """The number of them."""
    bytes: Count
    """Their size, in bytes; 0 where a size means nothing."""


class CensusEvent(RankEventBase):
    """A count of all that is alive, at the end of a step."""

    kind: Literal["census"]
    lines: list[CensusLine]
    """The lines that grew most since the first census."""
    bytes: NotRequired[Count]
    """The bytes of all tensors; absent without a framework."""
    tensors: NotRequired[Count]
    """The number of all tensors; absent without a framework."""
    descriptors: Count
    """The number of open descriptors."""
    threads: Count
    """The number of threads."""
    groups: NotRequired[Count]
    """The number of process groups; absent without a framework that has them."""
    rss: Count
    """The resident memory of the process, in bytes."""
    limits: NotRequired[dict[str, int]]
    """The memory of the machine, in bytes, and the most descriptors; absent but in the first census."""
    ms: Duration
    """The time that the census took, in milliseconds."""


class HeapEvent(RankEventBase):
    """The size of the C heap at the end of a step."""

    kind: Literal["heap"]
    bytes: Count
    """The bytes that are in use."""
