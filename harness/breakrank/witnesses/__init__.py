"""Witnesses, one family per file: the folder is the registry. Each sees from outside that a strike has landed.

A witness is never the injector: it is the kernel, a peer, or bytes that are read again. It imports no fault, since a
fault's header is checked against the names of all witnesses as soon as the fault is defined.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from breakrank_agent.protocol.fault import Fault, in_snake_case, unknown
from breakrank_agent.protocol.target import Target
from breakrank_agent.protocol.trigger import PlanError

if TYPE_CHECKING:
    # The plugin imports this package in each session of pytest, and has no need of the log there.
    from breakrank_agent.protocol.events import StrikeEvent

#: Seconds within which a witness must see a strike, if it says nothing else, or that counts as missed.
CONFIRM_S = 1.0

#: The sight of a witness: the value that its looks return.
Look = TypeVar("Look")


@dataclass
class Evidence(Generic[Look]):
    """Everything that was seen of one struck rank since the strike fired.

    `reports` are waitpid's reports on the rank, `seen` is the agent's second reading, and `silent` says that the rank
    has recorded nothing since. `before`, `earlier` and `after` are the looks of the witness itself: before a strike
    from outside, or as soon as one from inside was known; the last time; and now.
    """

    reports: list[dict[str, Any]] = field(default_factory=list)
    seen: StrikeEvent | None = None
    silent: bool = True
    before: Look | None = None
    earlier: Look | None = None
    after: Look | None = None


class Witness(Generic[Look]):
    """Sees one effect of faults. A subclass is a witness, or with `abstract=True` a base."""

    abstract: ClassVar[bool] = True
    #: A rank does nothing more after a fault that this witness has seen.
    halts: ClassVar[bool] = False
    #: Seconds within which it must see a strike. A limit, not a trigger.
    within_s: ClassVar[float] = CONFIRM_S

    def __init_subclass__(cls, abstract: bool = False) -> None:
        """Take note of a base that is no witness itself."""
        super().__init_subclass__()
        cls.abstract = abstract

    @classmethod
    def name(cls) -> str:
        """Return the name by which faults call the witness (`FailedCall` is `failed_call`)."""
        return in_snake_case(cls.__name__)

    def look(self, fault: Fault, target: Target) -> Look | None:
        """Look at something outside of the injector, before the strike and after it; None if it cannot be seen."""
        return None

    def judge(self, fault: Fault, evidence: Evidence[Look]) -> str | None:
        """Return the proof that the fault has landed, in a clause; None if there is none."""
        raise NotImplementedError

    def is_set(self, fault: Fault, evidence: Evidence[Look]) -> bool:
        """Return whether the fault is armed and takes effect only once the rank goes on: it is then released."""
        return False


@functools.cache
def all_witnesses() -> Mapping[str, Witness[Any]]:
    """Return every witness by name."""
    found: dict[str, Witness[Any]] = {}
    for module in pkgutil.iter_modules(__path__):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, Witness) and value.__module__ == loaded.__name__:
                found |= {} if value.abstract else {value.name(): value()}
    return dict(sorted(found.items()))


def witness_of(fault: Fault) -> Witness[Any]:
    """Return the witness of a fault."""
    return all_witnesses()[fault.witness]


def check_witness(fault: type[Fault]) -> None:
    """Raise `PlanError` for a fault that names no witness, or one that does not exist."""
    if not fault.witness:
        raise PlanError(f"fault {fault.__name__}: it names no witness; known are {', '.join(all_witnesses())}")
    if fault.witness not in all_witnesses():
        raise unknown(fault, "witness", fault.witness, all_witnesses())
