"""Events that the Conductor writes: what it saw of the ranks, and what it did."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, TypedDict

from breakrank_agent.protocol.events.base import (
    AttemptEventBase,
    ConductorEventBase,
    Count,
    Duration,
    OneRankEventBase,
    Ordinal,
    PointName,
    RankName,
)
from breakrank_agent.protocol.events.not_required import NotRequired


class SpawnedEvent(OneRankEventBase):
    """A rank was started."""

    kind: Literal["spawned"]
    pid: Count
    """The process."""
    node: NotRequired[str]
    """The node that the process is on; absent for one of this machine."""


class ClockEvent(ConductorEventBase):
    """The clock of a node, as it was compared with ours. Times of events of its ranks are as our clock has them."""

    kind: Literal["clock"]
    node: str
    """The node."""
    offset_s: float
    """The seconds by which its monotonic clock is ahead of ours."""
    error_s: Duration
    """The seconds by which that may be wrong: events of two nodes that are no further apart have no order."""


class ExitEvent(OneRankEventBase):
    """A rank has ended."""

    kind: Literal["exit"]
    status: int
    """The exit code, or minus the signal."""
    ended: bool
    """The Conductor or the launcher ended it."""
    by: NotRequired[Literal["launcher"]]
    """The one that ended it; absent if that was the Conductor, or nobody."""


class StrikeOutcomeEvent(OneRankEventBase):
    """A strike on a rank, as it is seen from outside of the rank."""

    kind: Literal["strike"]
    strike: Count
    """The index of the strike in the plan, from 0."""
    phase: Literal["act", "landed", "missed", "healed", "unhealed"]
    """`act`: the fault gave the rank an exit status itself; `landed`: a witness saw it; `healed`: it was undone."""
    status: NotRequired[int]
    """The exit status that the fault gave; absent in other phases than `act`."""
    witness: NotRequired[str]
    """The witness that saw the strike, and how; absent in other phases than `landed`."""
    why: NotRequired[str]
    """The reason; absent in other phases than `missed` and `unhealed`."""


class WaitingRank(TypedDict):
    """The place in which a rank waits or, if it is in no collective, was last seen."""

    rank: Count
    """The rank."""
    step: Count
    """The step."""
    point: PointName
    """The point."""
    op: str
    """The operator; empty if the rank is in no collective."""
    timeout_s: Optional[float]
    """The seconds after which the wait raises; null if not known."""
    group: NotRequired[str]
    """The process group; absent if the rank was in no collective."""
    c: NotRequired[Ordinal]
    """The number of the collective; absent for a message, and as `group` is."""
    p: NotRequired[Ordinal]
    """The number of the message; absent for a collective, and as `group` is."""
    peer: NotRequired[RankName]
    """The other rank of a message; absent for a collective, and as `group` is."""
    root: NotRequired[RankName]
    """The root; absent for a call that has none, and as `group` is."""
    site: NotRequired[str]
    """The line of the user's code, as `file:line`; absent if it is not known."""
    shapes: NotRequired[list[Any]]
    """The shapes of the tensors; absent if there are none."""
    dtype: NotRequired[str]
    """The dtype of the first tensor; absent if there is none."""
    said: NotRequired[str]
    """A clause on the call; absent if there is nothing to say."""
    after: NotRequired[str]
    """The collective that the rank was last seen in, and has left; absent if it is in one, or was in none."""
    lacks: NotRequired[list[Count]]
    """The ranks without which the wait is never complete; absent if the rank is in no collective."""


LockWords = TypedDict("LockWords", {"for": Annotated[str, "The lock, queue or thread that it waits for, in words."]})


class LockWait(LockWords):
    """A thread that waits for a lock of its own process."""

    rank: Count
    """The rank."""
    thread: str
    """The thread."""
    site: str
    """The line of the user's code, as `file:line`; empty if it is not known."""


class WaitingThreads(TypedDict):
    """Threads of one rank that the kernel shows alike, at the last look."""

    rank: Count
    """The rank."""
    thread: str
    """The name that the kernel has of them."""
    count: Ordinal
    """The number of such threads."""
    does: Literal["waits", "polls", "idle", "moves", "stopped"]
    """`waits`: nothing but a thread of the job can wake it; `idle`: it has nothing to do, as an idle pool."""
    call: str
    """The system call that they are in, by name or number; empty if they are in none, or the kernel does not say."""


class HungEvidence(TypedDict):
    """The evidence by which a wait was held to be endless."""

    by: Literal["threads", "rendezvous", "network", "schedule", "deadline", "steps"]
    """The proof: threads that stood still, a rendezvous that lacks a rank, ways on which nothing arrives, a schedule in
    which no rank can move. Without one: the deadline has passed, or a rank made ten times the job's steps."""
    looks: Count
    """The number of looks, one after the other, that found all threads as they were; 0 where none were compared."""
    threads: list[WaitingThreads]
    """The threads of the ranks that waited; empty if the kernel does not show them."""


class HungEvent(AttemptEventBase):
    """The ranks that are left can never go on, or did not go on in time, and were ended."""

    kind: Literal["hung"]
    why: str
    """The cause of the wait, as a verdict names it, or `deadline`."""
    peer: Optional[int]
    """The first of `peers`; null if there are none."""
    peers: list[Count]
    """The ranks that seem responsible, by what the ranks did until then. The verdict, which has the control and all
    findings, may blame others."""
    shown_by: str
    """The evidence against these, in a clause; empty if there is none."""
    ranks: list[Count]
    """The ranks that waited."""
    seconds: float
    """The time for which no rank had moved, in seconds."""
    waiting: list[WaitingRank]
    """The place of each rank that waited."""
    evidence: NotRequired[HungEvidence]
    """The looks that the Conductor took; absent in runs of older versions."""
    locks: NotRequired[list[LockWait]]
    """The threads that wait for each other's locks; absent but for a `lock cycle`."""


class HeldEvent(OneRankEventBase):
    """Ranks waited for a rank that had made the plan's last step. `rank` is that rank."""

    kind: Literal["held"]
    waiting: list[Count]
    """The ranks that waited for it."""
    on: bool
    """It went on, past that step; false: a strike had landed, and it ended."""


class TurnEvent(OneRankEventBase):
    """The schedule let a rank move."""

    kind: Literal["turn"]
    turn: Count
    """The number of the turn, from 0."""
    op: str
    """The operation that the rank was about to make."""
    key: str
    """The storage or lock that it is about; empty if there is none."""


class StacksEvent(OneRankEventBase):
    """The stacks of a rank that was about to be ended."""

    kind: Literal["stacks"]
    text: str
    """The stacks, as `faulthandler` writes them."""


class CrashThread(TypedDict):
    """A thread of a rank that died of a signal."""

    thread: str
    """The name of the thread."""
    died: bool
    """It is the thread that the signal came to."""
    frames: list[list[Any]]
    """The user's frames, each as `[file, line, function]`, the outermost one first."""
    waits: str
    """The wait that the thread was in, in words; empty if it was in none."""
    native: list[str]
    """The native functions of the thread, the innermost one first; empty if they were not read."""


class CrashEvent(OneRankEventBase):
    """A rank died of a signal, and its stacks were read."""

    kind: Literal["crash"]
    text: str
    """The text that the rank wrote when it died, shortened."""
    threads: list[CrashThread]
    """The thread that died, and those that were in the user's code."""
    address: str
    """The address that was accessed; empty if it is not known."""
    unread: str
    """The reason why native stacks were not read; empty if they were."""


class DroppedEvent(OneRankEventBase):
    """Records of a rank were lost, since its log was full and nobody drained it."""

    kind: Literal["dropped"]
    count: Count
    """The number of records that were lost so far."""


class LeftOutEvent(OneRankEventBase):
    """Events in the middle of a rank's history were not kept, since a watched job's history is bounded."""

    kind: Literal["left_out"]
    count: Count
    """The number of events."""


class DamagedEvent(AttemptEventBase):
    """A record makes no sense; nothing behind it is taken from its file or rank.

    Reading a run adds such an event, with the time 0, for each file that is damaged.
    """

    kind: Literal["damaged"]
    rank: Optional[Count]
    """The rank whose record it is; null: the Conductor's own."""
    why: str
    """The damage, in a clause."""


class AttemptEvent(AttemptEventBase):
    """An attempt is over."""

    kind: Literal["attempt"]
    failed: bool
    """A rank failed."""
    hung: bool
    """Ranks had to be ended."""


class LeftEvent(AttemptEventBase):
    """A file that ranks wrote, as it lies on disk at the end of the attempt."""

    kind: Literal["left"]
    path: str
    """The path, from the working folder."""
    file: Optional[str]
    """A digest of its bytes."""
    size: Optional[int]
    """Its size, in bytes."""


class UnrankedEvent(AttemptEventBase):
    """A process that is no rank has trained, or has joined a group of ranks. It is not watched."""

    kind: Literal["unranked"]
    pid: Count
    """The process."""
    own: bool
    """It is the process of the command itself."""
    did: str
    """The call that it joined a group by, or the optimizer that it trained with."""
    below: Optional[Count]
    """The rank that started it; null if none did."""
    rank: Optional[Count]
    """Its number in a group of its own; null if it is in none."""
    world: Optional[Count]
    """The number of ranks in that group; null as `rank` is."""


class LauncherEvent(AttemptEventBase):
    """The launcher of the job is over."""

    kind: Literal["launcher"]
    status: Optional[int]
    """The exit code, or minus the signal; null: it never ended by itself."""
    ended: bool
    """The Conductor ended it."""
    blames: list[Count]
    """The ranks that it names as the first to fail."""
    closed: list[str]
    """The processes that no agent can enter, and why, in words."""
    said: NotRequired[str]
    """The exception that it printed last; absent if it ended well, or printed none."""


class JobEvent(ConductorEventBase):
    """The controller's word on a job of the cluster's, when its command is over."""

    kind: Literal["job"]
    number: str
    """The number of the job."""
    state: str
    """The state, as the controller calls it."""
    reason: str
    """The reason that the controller gives for the state."""
    nodes: str
    """The nodes that it ran on; empty if it has had none."""
    restarts: Count
    """The number of times that it was requeued."""
    status: Count
    """The exit code of the job."""
    signal: Count
    """The signal that ended it, or 0."""


class EnforcedEvent(OneRankEventBase):
    """The kernel has enforced limits of the control group of a rank, so many times by each controller."""

    kind: Literal["enforced"]
    memory: NotRequired[Ordinal]
    """The number of processes that were killed for the memory of the group; absent if none was."""
    cpu: NotRequired[Ordinal]
    """The number of times that the group had to wait for a processor; absent if it never had to."""
    pids: NotRequired[Ordinal]
    """The number of times that the group could not start a process; absent if it always could."""


class ViewEvent(ConductorEventBase):
    """The ranks work in a private view of the working folder that differs from the folder itself."""

    kind: Literal["view"]
    notes: list[str]
    """The differences, and what is not protected, in words."""


class NotKeptEvent(ConductorEventBase):
    """Files that ranks wrote could not be brought back from a container."""

    kind: Literal["not_kept"]
    count: Ordinal
    """The number of files."""
    path: str
    """The first of them."""
    why: str
    """The reason, in a clause."""
