"""Events of collectives, messages, process groups and the rendezvous."""

from __future__ import annotations

from typing import Annotated, Literal, Optional, TypedDict, Union

from breakrank_agent.protocol.events.base import (
    MOST_RANKS,
    AtLeast,
    AtMost,
    Count,
    Ordinal,
    RankEventBase,
    RankName,
)
from breakrank_agent.protocol.events.not_required import NotRequired


class Contents(TypedDict):
    """A tensor that a collective reads or writes, in sums. A number that is not finite is `nan`, `inf` or `-inf`."""

    digest: str
    """A digest of the bytes."""
    n: Count
    """The number of elements that digest and sums are of."""
    of: NotRequired[Count]
    """The number of all elements, where every so-manieth was looked at, from the first on; absent if all were."""
    sum: NotRequired[Union[float, str]]
    """The sum of the elements; absent without elements, or where the layout is not strided."""
    abs: NotRequired[Union[float, str]]
    """The sum of the magnitudes of the elements; absent as `sum` is."""
    max: NotRequired[Union[float, str]]
    """The greatest element; absent as `sum` is."""
    min: NotRequired[Union[float, str]]
    """The least element; absent as `sum` is."""
    parts: NotRequired[list[Contents]]
    """The piece of each rank, in the group's order; absent unless the tensor holds one piece for each rank."""


class CallNumber(TypedDict):
    """The fields by which the issue of a collective or a message and its completion are paired."""

    c: NotRequired[Ordinal]
    """The number of the collective in its group on this rank, from 1; absent for a message, and outside a group."""
    p: NotRequired[Ordinal]
    """The number of the message between its two ranks in the group, from 1; absent for a collective."""
    peer: NotRequired[Annotated[RankName, AtLeast(-1)]]
    """The other rank of a message, by its number in the world; -1: any source; absent for a collective."""
    tag: NotRequired[Union[int, str]]
    """The tag of a message; absent for a collective."""


CallWords = TypedDict(
    "CallWords",
    {
        "async": NotRequired[Annotated[Literal[True], "Python asked for a work to wait for; absent otherwise."]],
        "in": NotRequired[Annotated[list[Contents], "The tensors that are read; absent unless its law is judged."]],
    },
)


class CallFacts(CallNumber, CallWords):
    """The fields of a call of a collective, or of a send or a receive."""

    op: NotRequired[str]
    """The operator, by the framework's name (of torch: of c10d); absent at points other than `collective`."""
    group: NotRequired[str]
    """The process group; one that is made anew under an old name is `name#2`; absent as `op` is."""
    size: NotRequired[Count]
    """The number of ranks in the group; absent as `op` is."""
    shapes: NotRequired[list[list[Count]]]
    """The shapes of the first tensors of the call; absent as `op` is."""
    dtype: NotRequired[str]
    """The dtype of the first tensor, empty without tensors; absent as `op` is."""
    splits: NotRequired[list[list[Count]]]
    """Of an all-to-all, the rows from each rank and those to each, in the group's order; absent if all are alike."""
    strides: NotRequired[list[list[int]]]
    """The strides of the tensors, in elements; absent where all of them are contiguous."""
    overlap: NotRequired[Literal[True]]
    """Several of the tensors that the call writes to lie in one memory; absent otherwise."""
    root: NotRequired[RankName]
    """The root, by its number in the world; absent for a call that has none."""
    reduce: NotRequired[str]
    """The reduction, such as `SUM`; absent for a call that does not reduce."""
    site: NotRequired[str]
    """The line of the user's code that calls, as `file:line`; absent if there is none."""
    loop: NotRequired[str]
    """The variables of the loops that call it, with their values, as `name 0.weight`; absent without contents, and
    where there are none."""
    said: NotRequired[str]
    """A clause on where a graph runs the collective, such as in a loop; absent elsewhere."""
    eager: NotRequired[bool]
    """TensorFlow issued it outside of a graph; absent otherwise."""


class GroupEvent(RankEventBase):
    """The first call in a process group is about to be made."""

    kind: Literal["group"]
    group: str
    """The name of the group."""
    ranks: list[Count]
    """The members, by their numbers in the world, in the group's order."""
    backend: str
    """The backend, empty where it does not say its name."""
    timeout_s: Optional[float]
    """The seconds after which the backend gives a wait up; null if not known."""
    lost_s: NotRequired[float]
    """The seconds after which a member that is silent is taken for lost; absent unless the backend has such a limit."""


class DoneEvent(RankEventBase, CallNumber):
    """A collective or a message is over."""

    kind: Literal["done"]
    op: str
    """The operator, as when it was issued."""
    group: str
    """The group, as when it was issued."""
    error: NotRequired[str]
    """The type of the exception that it raised; absent if it did not fail."""
    out: NotRequired[list[Contents]]
    """The tensors that the call has written; absent unless its law is judged, or where they may have changed since."""
    kept: NotRequired[bool]
    """Nothing has changed that must not; absent unless its law is judged and somebody has waited for the work."""


class RendezvousEvent(RankEventBase):
    """A rank enters or leaves the start of the job, where all ranks find each other."""

    kind: Literal["rendezvous"]
    phase: Literal["enter", "leave"]
    """Before the call, or after it."""
    op: NotRequired[str]
    """The name of the call; absent for `init_process_group`."""
    rank: int
    """The number under which the rank comes; -1 if it names none."""
    world: Annotated[int, AtMost(MOST_RANKS)]
    """The number of ranks that it expects; -1 if it names none."""
    init: str
    """The method by which ranks find each other: a URL, `store` or `TF_CONFIG`."""
    master: str
    """The address of the master, as `host:port`; empty if there is none."""
    backend: str
    """The backend that it names; empty if it names none."""
    cluster: NotRequired[str]
    """The addresses of all workers, separated by commas; absent for torch."""
    interface: str
    """The network interface that it names; empty if it names none."""
    proxy: NotRequired[str]
    """The proxy that gRPC asks for the way to a worker, empty if there is none; absent for torch."""
    timeout_s: Optional[float]
    """The seconds after which the rendezvous is given up; null if there is no such limit."""
    error: NotRequired[str]
    """The type of the exception that the call raised; absent on entering, and if it did not fail."""


class GroupingEvent(RankEventBase):
    """A rank enters or leaves the making of a process group."""

    kind: Literal["grouping"]
    phase: Literal["enter", "leave"]
    """Before the call, or after it."""
    ranks: Optional[list[Count]]
    """The members, by their numbers in the world; null: all ranks."""
    local: NotRequired[Literal[True]]
    """Only its members make it (`use_local_synchronization`); absent if all ranks must."""
    site: NotRequired[str]
    """The line of the user's code that calls, as `file:line`; absent if there is none."""
    error: NotRequired[str]
    """The type of the exception that the call raised; absent on entering, and if it did not fail."""
