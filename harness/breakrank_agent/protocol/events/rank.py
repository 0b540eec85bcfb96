"""Events of the life of a rank: its start and end, points, payloads, exceptions, strikes and remarks."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, Union

from breakrank_agent.protocol.events.base import (
    MOST_RANKS,
    AtLeast,
    AtMost,
    Count,
    Duration,
    OfLength,
    Ordinal,
    PointName,
    RankEventBase,
)
from breakrank_agent.protocol.events.collectives import CallFacts
from breakrank_agent.protocol.events.not_required import NotRequired
from breakrank_agent.protocol.events.state import ParameterFacts

#: An exit code as Python takes it: a truth value is one, and null is 0.
ExitCode = Optional[Union[int, bool]]


class BegunEvent(RankEventBase):
    """The first event of a rank."""

    kind: Literal["rank"]
    attempt: Count
    """The attempt, from 0."""
    slot: Count
    """The place of the rank among those of the plan."""
    rank: Count
    """The number of the rank."""
    world: Annotated[int, AtLeast(1), AtMost(MOST_RANKS)]
    """The number of ranks."""
    pid: Count
    """The process."""
    python: str
    """The version of Python."""


class PointEvent(RankEventBase, CallFacts):
    """The rank enters a point. A collective or a message is on record before it blocks."""

    kind: Literal["point"]
    point: PointName
    """The point."""
    visit: Ordinal
    """The number of times that this point was entered in this step, from 1."""
    path: NotRequired[str]
    """The file or folder, from the working folder; absent at points other than `save`, `restore` and `write`."""
    how: NotRequired[str]
    """The way in which the file is written, such as `open` or `rename`; absent at points other than `write`."""
    source: NotRequired[str]
    """The path from which the file was renamed; absent but for `rename`, and where it lay outside of the folder."""


class PayloadEvent(RankEventBase, ParameterFacts):
    """The result of a point. The parameters are those after a step."""

    kind: Literal["payload"]
    of: PointName
    """The point."""
    indices: NotRequired[Optional[list[Any]]]
    """The indices of the samples of a batch, null if they are not known; absent but for `load`."""
    samples: NotRequired[Optional[list[str]]]
    """A digest of each sample of a batch, null where samples cannot be told apart; absent as `batch` is."""
    batch: NotRequired[str]
    """A digest of the batch; absent but for `load`, and where the step is not digested."""
    begins: NotRequired[Count]
    """The number of batches of the iterator whose first batch this is; absent for others, and where it is not known."""
    iterator: NotRequired[Ordinal]
    """The number of the iterator, in the order of their first batches; absent where it is that of the batch before."""
    dataset: NotRequired[str]
    """A digest of the innermost dataset, by parts of it; absent where these say too little, and but for first batches
    of an iterator."""
    total: NotRequired[Count]
    """The number of samples of the innermost dataset; absent where it has none, and but for first batches."""
    draws: NotRequired[Literal["replacement", "part"]]
    """The sampler draws with replacement, or means to draw from a part of the dataset; absent otherwise."""
    padded: NotRequired[Literal[True]]
    """The sampler may have added samples so that all ranks have as many; absent otherwise, and as `total` is."""
    shuffles: NotRequired[Literal[True]]
    """The iterator hands out samples in an order that is drawn: by torch's own sampler, or a dataset of TensorFlow;
    absent otherwise, and for batches of the iterator of the batch before."""
    contents: NotRequired[list[str]]
    """A digest of each sample that has an index; absent unless contents are asked for, and as `batch` is."""
    workers: NotRequired[Count]
    """The number of workers of an iterator over a stream whose first batch this is; absent for others."""
    epoch: NotRequired[int]
    """The epoch that a sampler was told which shuffles for all ranks; absent without such a one, and as `begins` is."""
    shapes: NotRequired[list[list[Count]]]
    """The shapes of the tensors of a batch; absent but for TensorFlow's."""
    dtypes: NotRequired[list[str]]
    """The dtypes of the tensors of a batch; absent as `shapes` is."""
    sizes: NotRequired[list[Optional[int]]]
    """The number of samples of each replica, null if it is not known; absent unless there are several replicas."""
    unfit: NotRequired[list[Count]]
    """The replicas whose batch is not finite; absent unless there are several replicas."""
    path: NotRequired[str]
    """The file, from the working folder; `(memory)` if it is none; absent but for `save`, `restore` and `write`."""
    file: NotRequired[Optional[str]]
    """A digest of the bytes of the file, null if they cannot be read; absent as `path` is."""
    size: NotRequired[Optional[int]]
    """The size of the file, in bytes, null as `file` is; absent as `path` is."""
    done: NotRequired[Count]
    """The number of steps that a save holds; absent but for `save`."""


class PassedEvent(RankEventBase):
    """A forward or a backward pass returned, or raised; on record where the plan's evidence has `phases`."""

    kind: Literal["passed"]
    point: PointName
    """The point that the rank entered as it began."""


class RaisedEvent(RankEventBase):
    """An exception passes through a point."""

    kind: Literal["raised"]
    point: PointName
    """The point."""
    type: str
    """The type of the exception."""
    message: str
    """Its message, shortened."""
    path: NotRequired[str]
    """The file; absent for a point without one."""


class ToldEvent(RankEventBase):
    """The program has said something about its training."""

    kind: Literal["told"]
    name: str
    """The name that the program gave it."""
    values: dict[str, Any]
    """The values that the program gave, by name."""


class StrikeEvent(RankEventBase):
    """A strike on this rank, as the rank itself sees it."""

    kind: Literal["strike"]
    strike: Count
    """The index of the strike in the plan, from 0."""
    phase: Literal["armed", "fired", "seen"]
    """`armed` at the start, `fired` at its point, `seen` when its effect was measured."""
    point: NotRequired[PointName]
    """The point at which it fired; absent in other phases."""
    visit: NotRequired[Count]
    """The visit of that point; absent in other phases than `fired`."""
    before: NotRequired[Optional[str]]
    """The struck thing before the strike, in a digest or in words; absent in other phases than `seen`."""
    after: NotRequired[Optional[str]]
    """The struck thing after the strike, likewise; absent in other phases than `seen`."""
    wall_s: NotRequired[Duration]
    """The time that the strike took, in seconds; absent unless it was made by the rank itself."""
    cpu_s: NotRequired[Duration]
    """The processor time that the strike took, in seconds; absent as `wall_s` is."""
    counted: NotRequired[list[Optional[int]]]
    """The backend's own count of collectives before and after, null if it has none; absent unless one was struck."""
    ahead_s: NotRequired[Annotated[list[float], OfLength(2)]]
    """The lead of the wall clock over the kernel's before and after, in seconds; absent unless the clock was struck."""


class ReportEvent(RankEventBase):
    """An exception leaves the main thread, or the program chooses an exit code other than 0."""

    kind: Literal["report"]
    type: str
    """The type of the exception; empty if there is none."""
    message: str
    """Its message, shortened."""
    code: ExitCode
    """The exit code."""
    frames: list[list[Any]]
    """The last frames of the traceback, each as `[file, line, function]`, the innermost one last."""
    through: NotRequired[str]
    """The type of the exception that brought it from another process; absent if the rank itself raised it."""


class EndEvent(RankEventBase, ParameterFacts):
    """The main module is over. The parameters are those at the end."""

    kind: Literal["end"]
    how: Literal["returned", "exit", "os._exit", "raised", "steps"]
    """The way out; `steps`: the last step that the plan asks for was made."""
    code: ExitCode
    """The exit code; null if the module returned."""
    state: Optional[dict[str, Any]]
    """The result that the program named, by name; null if it named none."""
    stays: NotRequired[Literal[True]]
    """The process lives on, as that of a launcher which keeps it; absent otherwise."""
    modules: NotRequired[str]
    """A digest of the outermost modules' parameters; absent where an optimizer stepped, or none is known."""


class NoteEvent(RankEventBase):
    """A remark."""

    kind: Literal["note"]
    text: str
    """The remark."""
    torch: NotRequired[str]
    """The version of torch; absent but in the note that says it."""
    tensorflow: NotRequired[str]
    """The version of TensorFlow; absent but in the note that says it."""
    steps_by: NotRequired[str]
    """The thing that counts the steps; absent but in the note that says it."""
    accesses: NotRequired[Literal[True]]
    """Reads and writes of tensors are on record; absent but in the note that says it."""
    limits: NotRequired[Literal[True]]
    """The remark limits what can be said of the run, and belongs into the verdict's notes; absent otherwise."""
    outsiders: NotRequired[Literal[True]]
    """The rank has started processes that are not watched; absent but in the note that says it."""
