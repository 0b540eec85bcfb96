"""Events about the state of the training: parameters and their gradients, batches, and devices."""

from __future__ import annotations

from typing import Literal, Optional, TypedDict

from breakrank_agent.protocol.events.base import Count, Ordinal, RankEventBase
from breakrank_agent.protocol.events.not_required import NotRequired


class ParameterFacts(TypedDict):
    """The parameters, in digests. All of it is absent where they cannot be read, or the step is not digested."""

    params: NotRequired[Optional[str]]
    """A digest of all parameters; absent without parameters."""
    norm: NotRequired[Optional[float]]
    """The Euclidean norm of all parameters, null if it is not finite; absent without parameters."""
    parts: NotRequired[list[str]]
    """A digest of each part of the parameters, in the optimizer's order; absent without parameters."""
    norms: NotRequired[list[float]]
    """The norm of each part; absent unless there is a reference to compare with, and if one is not finite."""
    finite: NotRequired[Optional[bool]]
    """All elements are finite; absent without parameters."""
    since: NotRequired[Count]
    """The last step at whose end all elements were finite; absent if they are, or if it is the step before."""
    replicas: NotRequired[list[str]]
    """A digest of the parameters of each replica in this process; absent unless there are several."""
    apart: NotRequired[list[Count]]
    """The parts that are not the same in all of these replicas; absent unless there are several."""


class NamesEvent(RankEventBase):
    """The parameters that are trained are new."""

    kind: Literal["names"]
    names: list[str]
    """A name for each part of the parameters, in the optimizer's order."""
    sharded: NotRequired[list[int]]
    """The parts of which each rank has a shard; absent if there are none."""
    shards: NotRequired[list[str]]
    """The shard that this rank has of each of these parts, by its place on a mesh, empty where none divides it;
    absent as `sharded` is."""
    sizes: NotRequired[list[Count]]
    """The number of elements that this rank has of each part; absent where each rank has all that it trains."""
    before: NotRequired[list[str]]
    """A digest of each part as it was before the first step; absent if that was not looked at for all of them."""
    eps: float
    """The distance from 1 to the next number in the coarsest dtype among the parameters."""


class SketchEvent(RankEventBase):
    """The parameters after the first step and at the end, in sums by which their distance from others is estimated.

    Each of the eight sums S_j = Σ s_j(i) x_i of a part has signs of its own, which are the same in each run. The mean
    of (S_j(a) - S_j(b))² is an unbiased estimate of |a - b|² (Alon, Matias, Szegedy, 1996).
    """

    kind: Literal["sketch"]
    sums: list[list[float]]
    """The sums of each part of the parameters, in the optimizer's order."""
    norms: list[float]
    """The Euclidean norm of each part."""
    sizes: list[Count]
    """The number of elements of each part."""


class SettingsEvent(RankEventBase):
    """Settings of an optimizer are new, or have changed, when it is about to step."""

    kind: Literal["settings"]
    optimizer: Ordinal
    """The number of the optimizer, in the order of their first steps."""
    param_group: Count
    """The number of the group of parameters; groups beyond the sixteenth are not watched."""
    values: dict[str, str]
    """The settings that are new, by their names, as text."""


class InputsEvent(RankEventBase):
    """The parameters and gradients that optimizers took since the last such event, in digests."""

    kind: Literal["inputs"]
    gradients: list[str]
    """A digest of the gradient of each part of the parameters; empty for zeros, and where none was taken."""
    before: NotRequired[list[str]]
    """A digest of each part as it was before its optimizer's first step, or empty; absent if there was no such step."""
    sums: NotRequired[list[list[float]]]
    """Sums of the gradient of each part, as of a sketch; absent unless there is a reference, and as `before` is."""
    totals: NotRequired[list[list[float]]]
    """The sum of each part's gradient, and that of the magnitudes, 0 where one is not finite; absent unless contents
    are recorded, and as `before` is."""
    still: NotRequired[list[Count]]
    """The number of elements of each part's gradient that are 0; absent as `before` is."""
    faint: NotRequired[list[Count]]
    """The number of those that may be rounding: up to four units in the last place of the largest; absent likewise."""


class SquaresEvent(RankEventBase):
    """The gradients as they are before ranks add up one number, or as an optimizer takes them afterwards."""

    kind: Literal["squares"]
    squares: list[float]
    """The sum of the squares of each part's gradient; empty where one is not finite."""
    taken: NotRequired[Literal[True]]
    """An optimizer is about to take them; absent before a sum."""


class LossEvent(RankEventBase):
    """The weight of an element in a loss is new."""

    kind: Literal["loss"]
    backward: Ordinal
    """The number of the backward pass within its step."""
    factor: float
    """The number by which the mean or the sum is multiplied."""
    reduction: Literal["mean", "sum"]
    """The reduction of the loss."""
    elements: Count
    """The number of elements that are reduced."""
    bare: NotRequired[Literal[True]]
    """No wrapper averages the gradients; absent where one does."""


class ScoredEvent(RankEventBase):
    """The only loss of a step, and the batch that the model was handed, which the loss is over as a whole."""

    kind: Literal["scored"]
    loss: float
    """The value of the loss."""
    samples: list[Count]
    """The number of samples of the batch; of sequences of tokens the sizes by which these are counted."""
    batch: str
    """A digest of all tensors that the outermost module was handed."""


class CutEvent(RankEventBase):
    """A collective has cut the graph of a loss."""

    kind: Literal["cut"]
    op: str
    """The operator, by the framework's name."""
    site: str
    """The line of the user's code that calls, as `file:line`; empty if there is none."""


class BuffersEvent(RankEventBase):
    """Buffers of a module that change, as a forward pass finds them."""

    kind: Literal["buffers"]
    train: bool
    """The module is in train mode."""
    first: str
    """The name of the first of them."""
    buffers: str
    """A digest of all of them."""


class AverageEvent(RankEventBase):
    """A model that is an average of another was brought up to date."""

    kind: Literal["average"]
    number: Ordinal
    """The number of the update."""
    average: str
    """A digest of its parameters."""


class ChangedEvent(RankEventBase):
    """Tensors have changed while a thread wrote them to a file."""

    kind: Literal["changed"]
    path: str
    """The file, from the working folder; `(memory)` if it is none."""
    count: Ordinal
    """The number of tensors that have changed."""
    of: Ordinal
    """The number of tensors that were written."""
    site: str
    """The line of the user's code that saves, as `file:line`; empty if there is none."""


class OverwrittenEvent(RankEventBase):
    """A file was written over while this rank has it mapped to read it."""

    kind: Literal["overwritten"]
    path: str
    """The file, from the working folder."""
    site: str
    """The line of the user's code that mapped it, as `file:line`; empty if there is none."""


class UnsyncedEvent(RankEventBase):
    """A step whose gradients were not all reduced. At least one of the fields below is there."""

    kind: Literal["unsynced"]
    missing: NotRequired[list[Count]]
    """The parts that had no gradient; absent if all had one."""
    unwrapped: NotRequired[list[Count]]
    """The parts that no wrapper knows; absent if one knows each of them."""
    outside: NotRequired[list[Count]]
    """The parts that are in no module that a wrapper was made for; absent if there are none."""
    late: NotRequired[list[Count]]
    """The parts that a module has got since a wrapper was made for it; absent if there are none."""
    bypassed: NotRequired[Literal[True]]
    """No forward pass went through the wrapper; absent if one did."""
    unreduced: NotRequired[Literal[True]]
    """The last forward pass was not to reduce gradients; absent if it was."""
    unfinished: NotRequired[Literal[True]]
    """The wrapper waited in vain for a gradient, and never reduced its bucket; absent otherwise."""


class StrayEvent(RankEventBase):
    """An optimizer has parameters of no module that is used, while some of those that are used are in no optimizer."""

    kind: Literal["stray"]
    optimizer: Ordinal
    """The number of the optimizer, in the order of their first steps."""
    parameters: Ordinal
    """The number of its parameters."""
    unowned: list[str]
    """The names of the first parameters that have a gradient and no optimizer."""
    frozen: NotRequired[Literal[True]]
    """These parameters are those of a module that is used, and all of them are frozen; absent otherwise."""


class UnzeroedEvent(RankEventBase):
    """Nothing has zeroed the gradients of an optimizer between its steps so far."""

    kind: Literal["unzeroed"]
    optimizer: Ordinal
    """The number of the optimizer, in the order of their first steps."""
    steps: Ordinal
    """The number of its steps so far."""


class ModeEvent(RankEventBase):
    """The mode of the modules that an optimizer trains is new, when it is about to step."""

    kind: Literal["mode"]
    optimizer: Ordinal
    """The number of the optimizer, in the order of their first steps."""
    train: bool
    """Train mode, of all of its modules in which something depends on that."""


class AssignedEvent(RankEventBase):
    """Replicas of a variable are assigned to with nothing that reduces."""

    kind: Literal["assigned"]
    parts: list[Count]
    """The parts of the parameters that are assigned to."""
    how: Literal["replica_by_replica", "replica_after_replica", "worker_by_worker", "in_one_component_alone"]
    """The way in which the replicas come to values of their own."""
    site: str
    """The line of the user's code, as `file:line`."""


class Asked(TypedDict):
    """A device that the program asked for."""

    device: str
    """The device, as `GPU:0`."""
    site: str
    """The line of the user's code that asked first, as `file:line`."""


class Strategy(TypedDict):
    """A distribution strategy that the program has made."""

    kind: str
    """The name of its class."""
    replicas: Ordinal
    """The number of its replicas in all processes."""
    devices: list[str]
    """The devices of its replicas in this process."""
    ran: bool
    """It has run a function."""
    shared: bool
    """All of its replicas were given the same tensors."""


class PlacedEvent(RankEventBase):
    """The places of the parameters are new."""

    kind: Literal["placed"]
    on: dict[str, Count]
    """The number of variables on each device."""
    there: list[str]
    """The devices that there are."""
    asked: list[Asked]
    """The devices that the program asked for, and that are not there."""
    strategies: list[Strategy]
    """The strategies that are alive."""
    plain: list[str]
    """The names of parameters that no strategy distributes; empty without a strategy."""
    aliased: list[str]
    """The names of variables that are among the parameters more than once."""


class RestoredEvent(RankEventBase):
    """A restore of TensorFlow was looked at, in the step after it."""

    kind: Literal["restored"]
    path: str
    """The checkpoint."""
    lacking: str
    """The objection to what the program has and the checkpoint lacks; empty if there is none."""
    unread: str
    """The objection to what the checkpoint has and the program did not take; empty if there is none."""


class LoadedEvent(RankEventBase):
    """A module of torch has taken in a state."""

    kind: Literal["loaded"]
    keys: Count
    """The number of keys of the state."""
    fitted: Count
    """The number of those that are the module's, too."""
    unread: str
    """The first key of the state that is none of the module's; empty if there is none."""
    lacking: str
    """The first key of the module's that the state lacks; empty if there is none."""
    own: bool
    """Each tensor of the state that fits lies in the memory of the module's own."""
    site: str
    """The line of the user's code that loads, as `file:line`; empty if there is none."""


class WorkerEvent(RankEventBase):
    """A worker of a loader, one of several, has put its first batches together."""

    kind: Literal["worker"]
    worker: Count
    """The number of the worker, from 0."""
    of: Ordinal
    """The number of workers of its loader."""
    random: dict[str, str]
    """A digest of the state from which each generator of random numbers began that the first batch made use of."""
    moved: list[str]
    """The files, opened before the workers were started, whose position was moved meanwhile."""


class UntrainedEvent(RankEventBase):
    """Parameters had no gradient in the first steps, or only zeros, although their modules were called, and an
    optimizer has them."""

    kind: Literal["untrained"]
    parameters: Ordinal
    """The number of them."""
    names: list[str]
    """The names of the first of them."""
    checkpoint: NotRequired[str]
    """The line that calls a checkpoint of which no input needs a gradient, and which calls their modules, empty if it
    is not the user's; absent if none does."""
    zeros: NotRequired[Literal[True]]
    """They had gradients of zeros, and are zeros themselves; absent if they had none."""


class UnawaitedEvent(RankEventBase):
    """An optimizer took a gradient that a collective writes, and nobody had waited for that."""

    kind: Literal["unawaited"]
    op: str
    """The operator of the collective."""
    site: str
    """The line of the user's code that calls it, as `file:line`; empty if there is none."""
    part: Count
    """The part of the parameters whose gradient it is."""


class ForgottenEvent(RankEventBase):
    """Parameters at the end of a model had gradients in the first steps, and are in no optimizer."""

    kind: Literal["forgotten"]
    parameters: Ordinal
    """The number of them."""
    names: list[str]
    """The names of the first of them."""
    moved: NotRequired[Literal[True]]
    """Something else trains them: they have moved since; absent before."""


class FrozenEvent(RankEventBase):
    """Parameters were frozen after their wrapper was made, or after the first steps had trained them."""

    kind: Literal["frozen"]
    parameters: Ordinal
    """The number of them."""
    name: str
    """The name of the first of them."""
    steps: Count
    """The number of steps that had been made."""
    wrapped: bool
    """A wrapper waits for their gradients; else `train()` froze them, which had not been called before."""
    site: str
    """The line of the user's code that called `train()`, as `file:line`; empty if there is none."""


class DropoutEvent(RankEventBase):
    """A function of the program drops elements at random while the model is in eval mode."""

    kind: Literal["dropout"]
    site: str
    """The line of the user's code that calls, as `file:line`; empty if there is none."""


class SpectralEvent(RankEventBase):
    """A pass in eval mode came before any in train mode, which is what fits a spectral norm to its weight."""

    kind: Literal["spectral"]
    name: str
    """The name of the first weight that is normed so."""
    ratio: float
    """The largest singular value of the weight as it was used, which is to be 1."""
    site: str
    """The line of the user's code that calls, as `file:line`; empty if there is none."""


class ScaledClipEvent(RankEventBase):
    """Gradients were clipped while a scaler of the loss had them scaled, by a limit of gradients as they are."""

    kind: Literal["scaled_clip"]
    limit: float
    """The norm to which they were clipped."""
    norm: float
    """The norm that the scaled gradients had."""
    scale: float
    """The factor of the scaler."""
    site: str
    """The line of the user's code that calls, as `file:line`; empty if there is none."""


class ScalerEvent(RankEventBase):
    """A scaler of the loss was asked for its first step: gradients may overflow, and a step is then skipped."""

    kind: Literal["scaler"]


class OverflowEvent(RankEventBase):
    """A scaler of the loss found gradients that are not finite, and skipped the step of an optimizer."""

    kind: Literal["overflow"]
    site: str
    """The line of the user's code that calls, as `file:line`; empty if there is none."""


class LackEvent(RankEventBase):
    """Gradients of replicas have not reached an update."""

    kind: Literal["lack"]
    parts: list[Count]
    """The parts of the parameters that were updated."""
    replicas: list[Count]
    """The replicas of this process whose gradients are missing."""
    of: Ordinal
    """The number of replicas in this process."""
    kept: bool
    """The update was made of gradients of an earlier step."""
    site: str
    """The line of the user's code that updates, as `file:line`."""
