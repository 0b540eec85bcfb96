"""Events by which threads and processes are put in order: reads and writes, and what they wait for each other with."""

from __future__ import annotations

from typing import Literal, Optional, TypedDict

from breakrank_agent.protocol.events.base import Count, RankEventBase
from breakrank_agent.protocol.events.not_required import NotRequired


class Turns(TypedDict):
    """The place of an event in a controlled schedule."""

    turn: NotRequired[Optional[int]]
    """The turn among the ranks that the event took, from 0; absent if it took none."""
    pick: NotRequired[Count]
    """The choice among the rank's threads that let it happen, from 0; absent if there was none."""


class AccessEvent(RankEventBase, Turns):
    """A read or a write of memory or of a file."""

    kind: Literal["access"]
    op: str
    """The operator, or the operation on a file."""
    mode: Literal["r", "w", "rw"]
    """A read, a write, or an update, which is both."""
    key: str
    """The storage: the path of a file, `shared:…` for memory that other ranks see, or `@…` for the process's own."""
    lo: NotRequired[Count]
    """The first byte of the storage that is touched; absent where it is the whole storage."""
    hi: NotRequired[Count]
    """The byte behind the last one; absent as `lo` is."""
    shape: NotRequired[list[int]]
    """The sizes by which the bytes lie with gaps; absent without gaps."""
    strides: NotRequired[list[int]]
    """The strides that belong to `shape`, in bytes; absent without gaps."""
    item: NotRequired[Count]
    """The size of one element, in bytes; absent without gaps."""
    pieces: NotRequired[list[list[int]]]
    """The ranges of bytes that an index names, each as `[from, to]`; absent unless an index names several."""
    bytes: NotRequired[list[int]]
    """The bytes of a file that are touched, as `[from, to]`; absent for memory, and for a whole file."""
    site: NotRequired[str]
    """The line of the user's code, as `file:line`; absent where it is not known."""
    tensor: NotRequired[str]
    """The tensor, in words; absent but for its first access."""
    whole: NotRequired[Literal[True]]
    """It is an atomic update: two of them lose nothing; absent otherwise."""
    at: NotRequired[Count]
    """The number of syncs of the thread before the access, where it is on record late; absent otherwise."""


class SyncEvent(RankEventBase, Turns):
    """A thread has acquired, or is about to release, something that orders it with others."""

    kind: Literal["sync"]
    do: Literal["acquire", "release", "yield"]
    """The operation; `yield`: the thread only let others move."""
    key: str
    """The lock, queue, thread or process; `shared:…` means the same in every rank; empty for `yield`."""
    ended: NotRequired[str]
    """The child whose end was waited for; absent for anything else."""


class ChildEvent(RankEventBase):
    """A process was started that is watched, too."""

    kind: Literal["child"]
    name: str
    """The name of the child; the names of its sequences begin with it."""
