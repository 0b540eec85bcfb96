"""Faults: one thing that goes wrong each, small enough to say in a sentence."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Optional, Protocol, runtime_checkable

from breakrank_agent.protocol.payload import Payload
from breakrank_agent.protocol.target import Target
from breakrank_agent.protocol.trigger import POINTS, PlanError, Trigger

if TYPE_CHECKING:
    # A rank draws nothing: its plan has all of it.
    from random import Random

#: The sides that a fault strikes from: in the rank itself, or in the Conductor while the rank is parked.
SIDES = ("inside", "outside")
#: The objects that a hook hands to a fault from inside, other than the parameters.
OFFERS = ("batch", "collective", "wrapper", "computation")
#: The capabilities of a machine, as the doctor's table names them.
CAPABILITIES = (
    "ptrace",
    "strace",
    "seccomp",
    "clock",
    "pageout",
    "pidfd",
    "namespaces",
    "netns",
    "nft",
    "tbf",
    "tun",
    "memory cgroup",
    "cpu cgroup",
    "pids cgroup",
    "freezer cgroup",
    "docker",
    "slurm",
    "slurm operator",
    "slurm preemption",
    "slurm hosts",
    "debugger",
    "compiler",
    "cuda",
)

#: From which rank to which.
Way = tuple[int, int]


class Fault:
    """One thing that goes wrong. A subclass is a frozen dataclass in the file of its family.

    Its header is class keywords, which are checked when the class is defined and stay as class attributes. A subclass
    of a fault has the header of its base, but for the keywords of its own. A class with `abstract=True` is a base.
    """

    #: The class is a base of faults, and no fault itself.
    abstract: ClassVar[bool] = True
    #: `inside`: the agent strikes at the point, with no round trip. `outside`: the rank parks, the Conductor strikes,
    #: confirms, and releases the rank.
    side: ClassVar[str] = "inside"
    #: The capabilities that the machine must have.
    needs: ClassVar[tuple[str, ...]] = ()
    #: The properties that a run with the fault shows, and those that it does not show.
    certifies: ClassVar[str] = ""
    #: The name of the witness in `breakrank.witnesses` that sees the fault land.
    witness: ClassVar[str] = ""
    #: The object that a hook hands to the fault, of `OFFERS`. Empty: the fault strikes as soon as the point comes.
    on: ClassVar[str] = ""
    #: The points that the fault can strike at; empty: all of them.
    points: ClassVar[tuple[str, ...]] = ()
    #: The rank must have walls of its own: a runner such as `sandbox`, not the plain processes.
    walled: ClassVar[bool] = False
    #: The walls must be a container's.
    contained: ClassVar[bool] = False
    #: The cluster that has started the job does it: the ranks must be tasks of Slurm's.
    clustered: ClassVar[bool] = False
    #: Writes of the rank are told to the Conductor from its start on, which keeps what of them has reached the disk.
    journals: ClassVar[bool] = False
    #: The fault can strike a user's own script, and not only the programs that come with us.
    strikes_scripts: ClassVar[bool] = True
    #: The signal (negative) or exit code that the fault itself delivers to its rank; None: the rank lives on.
    delivers: ClassVar[Optional[int]] = None
    #: The launcher ends the attempt, and starts all ranks that the job has: lost hosts are there again.
    regrows: ClassVar[bool] = False

    def __init_subclass__(cls, abstract: bool = False, **header: Any) -> None:
        """Take the header of a fault. Raises `PlanError` for a keyword or a value that is not known."""
        super().__init_subclass__()
        cls.abstract = abstract
        for keyword, value in header.items():
            _check(cls, keyword, value)
            setattr(cls, keyword, value)
        for check in () if abstract else _CHECKS:
            check(cls)

    @classmethod
    def name(cls) -> str:
        """Return the fault's name: the class name in the field's spelling (`FlipBit` is `flip_bit`)."""
        return in_snake_case(cls.__name__)

    @classmethod
    def family(cls) -> str:
        """Return the family: the name of the fault's file."""
        return cls.__module__.rsplit(".", 1)[-1]

    def strike(self, target: Target) -> None:
        """Strike from outside. Faults of the side `outside` override this."""
        raise NotImplementedError(f"{self.name()} does not strike from outside")

    def strike_inside(self, payload: Payload) -> None:
        """Strike from inside the rank. Faults of the side `inside` override this."""
        raise NotImplementedError(f"{self.name()} does not strike from inside")

    def lasts(self) -> bool:
        """Return whether the fault strikes again whenever its rank enters the point, in later attempts, too."""
        return False

    def drawn(self, draw: Random) -> Fault:
        """Return the fault with all of its chance drawn; one without chance is itself."""
        return self

    def own_act(self) -> Optional[int]:
        """Return the exit status (signals negative) that the fault delivers, or None if its rank lives on."""
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


@runtime_checkable
class Heals(Protocol):
    """A fault with effects that outlive the strike."""

    def heal(self, target: Target) -> None:
        """Undo them."""


@runtime_checkable
class Releases(Protocol):
    """A fault that has something left to do before the rank goes on."""

    def release(self, target: Target) -> None:
        """Do it, once the fault was seen to land, or has missed."""


@runtime_checkable
class GoesOn(Protocol):
    """A fault that takes its course after it has landed, as a link that flaps."""

    def goes_on(self, target: Target) -> bool:
        """Take the next part of the course, if it is due; return whether there is more to come.

        While there is, no wait of a rank proves a hang.
        """


@runtime_checkable
class Closes(Protocol):
    """A fault after which nothing arrives on some ways between the ranks."""

    def closes(self, rank: int, ranks: Collection[int]) -> set[Way]:
        """Return these ways, for a strike on `rank`."""


#: The keywords of a header: the type of each, and its values, where they are a closed list.
_HEADER: Mapping[str, tuple[type, tuple[str, ...]]] = {
    "side": (str, SIDES),
    "needs": (tuple, CAPABILITIES),
    "certifies": (str, ()),
    "witness": (str, ()),
    "on": (str, OFFERS),
    "points": (tuple, POINTS),
    "walled": (bool, ()),
    "contained": (bool, ()),
    "clustered": (bool, ()),
    "journals": (bool, ()),
    "strikes_scripts": (bool, ()),
    "delivers": (int, ()),
    "regrows": (bool, ()),
}
#: Checks of a fault by parts that the agent does not know.
_CHECKS: list[Callable[[type[Fault]], None]] = []


def _check(fault: type[Fault], keyword: str, value: Any) -> None:
    """Check one keyword of a header. Raises `PlanError`."""
    if keyword not in _HEADER:
        raise unknown(fault, "keyword", keyword, _HEADER)
    kind, known = _HEADER[keyword]
    if not isinstance(value, kind):
        raise PlanError(f"fault {fault.__name__}: {keyword} is {value!r}, not a {kind.__name__}")
    for one in value if isinstance(value, tuple) else (value,):
        if known and one not in known:
            raise unknown(fault, keyword, one, known)


def unknown(fault: type[Fault], keyword: str, value: Any, known: Iterable[str]) -> PlanError:
    """Return the error that a fault's header has a value that is not known, with the nearest one that is."""
    # A rank whose faults are in order has no need of it.
    import difflib

    names = list(known)
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    return PlanError(f"fault {fault.__name__}: unknown {keyword} {value!r}; {hint}")


def check_each(check: Callable[[type[Fault]], None]) -> None:
    """Have a check look at each fault that is defined, now and later. It raises `PlanError` for a wrong header."""
    for fault in _defined(Fault):
        check(fault)
    _CHECKS.append(check)


def _defined(base: type[Fault]) -> Iterator[type[Fault]]:
    for fault in base.__subclasses__():
        yield from () if fault.abstract else (fault,)
        yield from _defined(fault)


def in_snake_case(name: str) -> str:
    """Return the name of a class in the spelling that plans and reports have for it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


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
