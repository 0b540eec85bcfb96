"""What a fault is: one thing that goes wrong, small enough to say in a sentence."""

from __future__ import annotations

import dataclasses
import re
import socket
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Union

from breakrank_agent.kernel.rooted import WorkingFolder
from breakrank_agent.protocol.trigger import PlanError, Trigger

#: What a mount is (mount(2)): read-only; changed where it is; another place for what is there already.
READ_ONLY, REMOUNT, BIND = 1, 32, 4096


class Walls(Protocol):
    """What a runner has put up around one rank: its own network and host name, and more."""

    @property
    def address(self) -> str:
        """The rank's own address."""

    @property
    def host(self) -> str:
        """The rank's own host name."""

    def run(self, *command: str, text: str = "", inside: tuple[str, ...] = ("net",)) -> str:
        """Run a program of the machine in the namespaces `inside`, on `text`; return what it prints.

        Raises `OSError` with what the program says if it fails.
        """

    def mount(self, source: Union[str, int], target: int, kind: str = "", flags: int = 0, options: str = "") -> int:
        """Mount `source`, by name or open, over the very file or folder that is open as `target`, as mount(2) does.

        Return a descriptor of what is seen there from now on, which is the caller's to close. Raises `OSError`.
        """

    def remount(self, mounted: int, flags: int = 0, options: str = "") -> None:
        """Change the mount that `mount` has returned. Raises `OSError`."""

    def unmount(self, mounted: int) -> None:
        """Take the mount away that `mount` has returned, for whoever looks anew. Raises `OSError`."""

    def disconnect(self) -> None:
        """Take the rank's container off its network. Raises `OSError` where there is none, or its engine refuses."""

    def connect(self) -> None:
        """Put the container on its network again, at the address that it had. Raises `OSError`."""

    def is_connected(self) -> bool:
        """Whether the engine says that the container is on its network. Raises `OSError`."""

    def datagrams(self) -> socket.socket:
        """Return a socket for datagrams at the rank's address. Raises `OSError`."""

    def open_socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """Return a new socket in the rank's network. Raises `OSError`."""


class Group(Protocol):
    """The control group of one rank and of all that it starts. Each method raises `OSError` where it cannot be done."""

    def limit_memory(self, size: int) -> None:
        """Limit what is taken from now on to `size` bytes."""

    def limit_cpu(self, percent: float) -> None:
        """Limit it to `percent` of one core."""

    def free_cpu(self) -> None:
        """Let it have every core again."""

    def limit_processes(self, headroom: int) -> None:
        """Limit it to `headroom` processes and threads more than it has."""

    def freeze(self) -> None:
        """Have everything in it stand still."""

    def thaw(self) -> None:
        """Let everything in it go on."""


class Target(Protocol):
    """The rank as a fault from outside sees it: its process, the working folder, and its peers' processes by rank.

    `number` is the strike's in the plan. `folder` is the working folder as the rank sees it: a path in it is asked for
    by `files` alone, since the rank may have laid anything there. `store` is the port of the job's rendezvous store, 0
    where none is known. Healing finds in `kept` what the strike has kept there.
    """

    number: int
    rank: int
    pid: int
    folder: str
    peers: Mapping[int, int]
    store: int
    kept: dict[str, Any]

    @property
    def around(self) -> Mapping[int, Walls]:
        """What is around each rank of the job; empty where nothing is."""

    @property
    def walls(self) -> Walls:
        """What is around the rank. Raises `OSError` if nothing is."""

    @property
    def group(self) -> Group:
        """The rank's control group, into which it comes when this is first asked for. Raises `OSError` without any."""

    def walls_of(self, rank: int) -> Walls:
        """Return what is around a rank of the job. Raises `OSError` if nothing is, or there is no such rank."""

    def files(self) -> WorkingFolder:
        """Return the working folder, in the mounts that strikes act in. Raises `OSError`."""

    def seen(self) -> WorkingFolder:
        """Return the working folder as it lies in the rank's own root. Raises `OSError`, also if the rank is gone."""

    def signal(self, number: int) -> None:
        """Send the signal `number` to the rank."""

    def start(self, script: str, *arguments: str) -> int:
        """Start a script of ours in the rank's network, wait until it says `ready`, and return its pid.

        It ends with the attempt at the latest. Raises `OSError` with what it says instead.
        """

    def stop(self, pid: int) -> None:
        """End what was started."""


class Payload(Protocol):
    """What the rank's hook hands to a fault from inside, at the point of the strike."""

    def buffers(self) -> list[tuple[str, memoryview]]:
        """Return the rank's parameters as (name, writable bytes)."""

    def gradients(self) -> list[tuple[str, memoryview]]:
        """Return the gradients of the rank's parameters as (name, writable bytes); those that there are."""

    def batch(self) -> list[Part]:
        """Return the tensors of the batch that a data loader is about to hand out; only at the point `load`."""

    def collective(self) -> Call:
        """Return the collective that the rank is about to issue; only at the point `collective`."""

    def wrapper(self) -> Wrapper:
        """Return what reduces the gradients of the forward pass that is about to begin; only at the point `forward`."""


class Part(Protocol):
    """One tensor of a batch, which is the rank's alone."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    def numbers(self) -> memoryview[Any]:
        """Return its numbers, writable, in C order. Raises `LookupError` for a dtype that Python has no numbers for."""

    def cast(self, dtype: str) -> None:
        """Make it one of another dtype, by the framework's own name."""


class Call(Protocol):
    """A collective that one rank is about to issue, and its peers as ever."""

    def skip(self) -> None:
        """Leave it out: who called it goes on as if it were done, with the tensors as they are."""

    def swap(self) -> None:
        """Issue it after the next one of its group."""

    def change(self, what: str, to: Any) -> None:
        """Issue it another way: `dtype` (a name), `shape`, `count` (elements more or less), `reduce` (a name), `root`.

        `to` None is whatever comes next. Raises `LookupError` for a call that has no such thing.
        """


class Wrapper(Protocol):
    """What has a module inside and reduces its gradients, for one forward pass."""

    def leave_unsynced(self) -> None:
        """Have no gradient reduced in the backward pass that follows."""

    def bypass(self) -> None:
        """Call the module inside in its place."""


class Fault:
    """One thing that goes wrong. A subclass is a frozen dataclass in the file of its family.

    Class attributes say what a fault is: `side` (`inside`: the agent strikes at the point, no round trip; `outside`:
    the rank parks, the Conductor strikes, confirms, releases), `needs` (capabilities of the machine), `certifies` (what
    a run with it shows, and what not), `witness` (who sees that it landed: a name in `breakrank.witnesses.witness`).
    """

    side: ClassVar[str] = "inside"
    needs: ClassVar[tuple[str, ...]] = ()
    certifies: ClassVar[str] = ""
    witness: ClassVar[str] = ""
    #: What a hook is to hand to it: `batch`, `collective` or `wrapper`. Empty: it strikes as soon as the point comes.
    on: ClassVar[str] = ""
    #: The points that it can strike at; empty: all of them.
    points: ClassVar[tuple[str, ...]] = ()
    #: Whether the rank must have walls of its own: a runner such as `sandbox`, not the plain processes.
    walled: ClassVar[bool] = False
    #: Whether these must be a container's.
    contained: ClassVar[bool] = False
    #: Whether it can strike a user's own script, and not only the programs that come with us.
    strikes_scripts: ClassVar[bool] = True
    #: The signal (negative) or exit code that the fault itself delivers to its rank; None: the rank lives on.
    delivers: ClassVar[Any] = None

    @classmethod
    def name(cls) -> str:
        """Return the fault's name: the class name in the field's spelling (`FlipBit` is `flip_bit`)."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def family(cls) -> str:
        """Return the family: the name of the fault's file."""
        return cls.__module__.rsplit(".", 1)[-1]

    def strike(self, target: Target) -> None:
        """Do it, from outside. Faults of side `outside` override this."""
        raise NotImplementedError(f"{self.name()} does not strike from outside")

    def strike_inside(self, payload: Payload) -> None:
        """Do it, from inside the rank. Faults of side `inside` override this."""
        raise NotImplementedError(f"{self.name()} does not strike from inside")

    def goes_on(self, target: Target) -> bool:
        """Go on with it, now and again after it has landed; return whether there is more to come.

        While there is, nobody's wait is proof of a hang.
        """
        return False

    def release(self, target: Target) -> None:
        """Do what remains to be done when it was seen to land, or missed, before the rank goes on."""

    def heal(self, target: Target) -> None:
        """Undo what outlives the strike."""

    def lasts(self) -> bool:
        """Whether it strikes again each time that its rank enters the point of the strike, in later attempts, too."""
        return False

    def own_act(self) -> Any:
        """Return the exit status (signals negative) that this fault delivers, or None if its rank lives on."""
        return self.delivers

    def words(self) -> str:
        """Say the fault in a few words."""
        values = ", ".join(f"{k}={v}" for k, v in self.to_json().items() if k != "name")
        return f"{self.name()}({values})" if values else self.name()

    def to_json(self) -> dict[str, Any]:
        """Return the name and the fields as plain values."""
        fields: Any = dataclasses.fields(self) if dataclasses.is_dataclass(self) else ()
        return {"name": self.name(), **{f.name: getattr(self, f.name) for f in fields}}

    def __matmul__(self, trigger: Trigger) -> Strike:
        if self.points and trigger.point not in self.points:
            raise PlanError(f"{self.name()} strikes at the point {' or '.join(self.points)}, not at {trigger.point}")
        return Strike(self, trigger)


@dataclasses.dataclass(frozen=True)
class Strike:
    """A fault at a trigger. `ranks` is empty until the plan resolves the trigger's selector."""

    fault: Fault
    trigger: Trigger
    ranks: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        return {
            "fault": self.fault.to_json(),
            "trigger": dataclasses.asdict(self.trigger),
            "ranks": list(self.ranks),
        }

    def words(self) -> str:
        """Say the strike in one clause."""
        return f"{self.fault.words()} at {self.trigger.words()}"
