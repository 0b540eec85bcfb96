"""Services: what one hook offers to other hooks, and to the agent. One hook sets each; None until that hook has."""

from __future__ import annotations

from typing import Any, Callable, Optional, Protocol

from breakrank_agent.agent.call_sites import Site, Sites


class WorkTracker(Protocol):
    """Tracks the collectives that are under way. A flight is the tracker's own record of one."""

    def fly(self, flight: Any, result: Any) -> None:
        """Keep the work that a call has returned."""

    def fail(self, flight: Any, error: BaseException) -> None:
        """Record that the call, or the wait for its work, has raised."""

    def look_back(self) -> None:
        """Record which works have been completed meanwhile."""

    def forget(self) -> None:
        """Look back, and keep nothing of a group that is being destroyed."""


class ContentReader(Protocol):
    """Reads the tensors of collectives, so that their laws can be judged."""

    def watch(self, name: str, names: list[str], args: Any, facts: Any) -> Optional[Any]:
        """Read what a call is about to read; return None for a call that has no tensors."""


class CutWatch(Protocol):
    """Keeps what collectives write that cuts a graph, until the next backward pass."""

    def meet(self, name: str, names: list[str], args: Any) -> None:
        """Look at a call that is about to be made."""


class SquaresWatch(Protocol):
    """Looks at gradients where ranks add up one number."""

    def meet(self, name: str, tensors: Any) -> None:
        """Look at a call that is about to be made, and at what it reads."""


class MappingWatch(Protocol):
    """Looks after files that are mapped to be read."""

    def meet(self, path: str) -> None:
        """Keep a file that is being mapped."""


class UnawaitedWatch(Protocol):
    """Remembers the works that nobody has waited for yet."""

    def start(self, op: str, work: Any, names: list[str], args: Any) -> None:
        """Take down a collective that has begun, if it has a work."""


class CensusTaker(Protocol):
    """Counts the objects that are alive at the end of each step."""

    #: Finds the user's lines.
    sites: Sites
    #: Each returns lines of the census: meter, site, count, bytes (0 where they cannot be told).
    meters: list[Callable[[], list[tuple[str, Site, int, int]]]]
    #: Figures of the whole process by name, such as the bytes of all tensors.
    totals: dict[str, int]
    #: Each returns True for types whose objects are not counted as such.
    passes: list[Callable[[type], bool]]
    #: Called just before everything that is alive is frozen.
    before_freeze: list[Callable[[], None]]


class TensorWatch(Protocol):
    """Records reads and writes of tensors that no operator makes."""

    def read_all(self, value: Any, op: str) -> None:
        """Record that operation `op` reads all tensors in a value."""

    def take(self, operator: Any, args: Any, goes_on: bool) -> None:
        """Record what a collective reads and writes; if it `goes_on`, until its work was waited for."""


class ShardedCheckpoint:
    """The state of `torch.distributed.checkpoint`, which saves many files and makes optimizer steps of its own."""

    __slots__ = ("makes_state", "threads")

    def __init__(self) -> None:
        #: The threads that save or load a checkpoint, of which each file that they touch is a part.
        self.threads: set[int] = set()
        #: True while an optimizer's state is being made, by a step that is none of the training.
        self.makes_state = False


class Services:
    """All services of one agent. It has slots alone: a service has to be declared here."""

    __slots__ = ("census", "contents", "cuts", "mapped", "packs", "sharded", "squares", "tensors", "unawaited", "works")

    def __init__(self) -> None:
        #: Set by torch/async_work; used by torch/collectives, torch/rendezvous, torch/training, and at the rank's end.
        self.works: Optional[WorkTracker] = None
        #: Set by torch/collective_contents, where contents are asked for; used by torch/collectives.
        self.contents: Optional[ContentReader] = None
        #: Set by torch/cut_graphs, where contents are asked for; used by torch/collective_contents.
        self.cuts: Optional[CutWatch] = None
        #: Set by torch/summed_squares, where contents are asked for; used by torch/collective_contents.
        self.squares: Optional[SquaresWatch] = None
        #: Set by python/mapped_files; used by python/files and torch/state_loads.
        self.mapped: Optional[MappingWatch] = None
        #: Set by python/census, where a census is asked for; used by torch/live_tensors and tensorflow/live_tensors.
        self.census: Optional[CensusTaker] = None
        #: Set by torch/tensor_accesses, where accesses are watched; used by torch/collectives and torch/training.
        self.tensors: Optional[TensorWatch] = None
        #: Set by torch/unawaited; used by torch/collectives.
        self.unawaited: Optional[UnawaitedWatch] = None
        #: True once the program packs what graphs save, so that to read it unpacks it. Set by torch/saved_tensors;
        #: used by torch/cut_graphs and torch/loss_weights.
        self.packs = False
        #: Kept by torch/sharded_checkpoints; used by torch/training.
        self.sharded = ShardedCheckpoint()
