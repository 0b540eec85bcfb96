"""The vocabulary of the history: each kind of event, and each of its fields.

It is the one place where an event is declared. The JSON Schemas in `breakrank/schemas`, the typed accessors in
`breakrank/history/kinds.py` and `docs/events.md` are generated from it by `make schemas`. Ranks write text and do not
import this package; pytest's side reads events as these types, and a type checker knows the fields of each kind.
"""

from __future__ import annotations

from typing import Union

from breakrank_agent.protocol.events.accesses import AccessEvent, ChildEvent, SyncEvent
from breakrank_agent.protocol.events.base import RankName
from breakrank_agent.protocol.events.collectives import (
    CallFacts,
    Contents,
    DoneEvent,
    GroupEvent,
    GroupingEvent,
    RendezvousEvent,
)
from breakrank_agent.protocol.events.conductor import (
    AttemptEvent,
    CrashEvent,
    CrashThread,
    DamagedEvent,
    DroppedEvent,
    EnforcedEvent,
    ExitEvent,
    HeldEvent,
    HungEvent,
    LauncherEvent,
    LeftEvent,
    LeftOutEvent,
    LockWait,
    NotKeptEvent,
    SpawnedEvent,
    StacksEvent,
    StrikeOutcomeEvent,
    TurnEvent,
    ViewEvent,
    WaitingRank,
)
from breakrank_agent.protocol.events.rank import (
    BegunEvent,
    EndEvent,
    NoteEvent,
    PayloadEvent,
    PointEvent,
    RaisedEvent,
    ReportEvent,
    StrikeEvent,
    ToldEvent,
)
from breakrank_agent.protocol.events.state import (
    AssignedEvent,
    CensusEvent,
    HeapEvent,
    LackEvent,
    NamesEvent,
    PlacedEvent,
    RestoredEvent,
    UnsyncedEvent,
)

#: One line of `attempt-N/rank-R.jsonl`: what a rank, or a process that it has started, has recorded.
RankLine = Union[
    BegunEvent,
    PointEvent,
    PayloadEvent,
    RaisedEvent,
    ToldEvent,
    AccessEvent,
    SyncEvent,
    ChildEvent,
    StrikeEvent,
    ReportEvent,
    EndEvent,
    NoteEvent,
    CensusEvent,
    HeapEvent,
    GroupEvent,
    DoneEvent,
    RendezvousEvent,
    GroupingEvent,
    NamesEvent,
    UnsyncedEvent,
    AssignedEvent,
    PlacedEvent,
    RestoredEvent,
    LackEvent,
]
#: One line of `conductor.jsonl`: what the Conductor saw of the ranks, and did.
ConductorLine = Union[
    SpawnedEvent,
    ExitEvent,
    StrikeOutcomeEvent,
    HungEvent,
    HeldEvent,
    TurnEvent,
    StacksEvent,
    CrashEvent,
    DroppedEvent,
    LeftOutEvent,
    DamagedEvent,
    AttemptEvent,
    LeftEvent,
    LauncherEvent,
    EnforcedEvent,
    ViewEvent,
    NotKeptEvent,
]
#: Any event.
Event = Union[RankLine, ConductorLine]

__all__ = [
    "AccessEvent",
    "AssignedEvent",
    "AttemptEvent",
    "BegunEvent",
    "CallFacts",
    "CensusEvent",
    "ChildEvent",
    "ConductorLine",
    "Contents",
    "CrashEvent",
    "CrashThread",
    "DamagedEvent",
    "DoneEvent",
    "DroppedEvent",
    "EndEvent",
    "EnforcedEvent",
    "Event",
    "ExitEvent",
    "GroupEvent",
    "GroupingEvent",
    "HeapEvent",
    "HeldEvent",
    "HungEvent",
    "LackEvent",
    "LauncherEvent",
    "LeftEvent",
    "LeftOutEvent",
    "LockWait",
    "NamesEvent",
    "NotKeptEvent",
    "NoteEvent",
    "PayloadEvent",
    "PlacedEvent",
    "PointEvent",
    "RaisedEvent",
    "RankLine",
    "RankName",
    "RendezvousEvent",
    "ReportEvent",
    "RestoredEvent",
    "SpawnedEvent",
    "StacksEvent",
    "StrikeEvent",
    "StrikeOutcomeEvent",
    "SyncEvent",
    "ToldEvent",
    "TurnEvent",
    "UnsyncedEvent",
    "ViewEvent",
    "WaitingRank",
]
