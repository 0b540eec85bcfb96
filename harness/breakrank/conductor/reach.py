"""The reach of a strike: its fault and its witness, on the machine where the rank is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from breakrank.conductor.struck_rank import StruckRank
from breakrank.host.node_pid import NodePid
from breakrank.witnesses import Evidence, witness_of
from breakrank_agent.protocol.fault import Fault, GoesOn, Heals, Releases


class Reach(Protocol):
    """One strike on one rank. Each act raises `OSError` with the reason of a machine that does not let it."""

    def strike(self) -> None:
        """Strike from outside."""

    def heal(self) -> None:
        """Undo the effects."""

    def release(self) -> None:
        """Do what the rank is to find when it goes on."""

    def goes_on(self) -> bool:
        """Go on with a strike that takes its time; return whether there is more."""

    def look(self) -> Any:
        """Return what the witness sees before the strike."""

    def judge(self, evidence: Evidence[Any]) -> str | None:
        """Have the witness look again; return its proof, or None."""

    def is_set(self, evidence: Evidence[Any]) -> bool:
        """Return whether the fault takes effect only once the rank goes on, as the last look shows."""


@dataclass
class Near(Reach):
    """The reach on this machine."""

    fault: Fault
    target: StruckRank

    def strike(self) -> None:
        """Strike from outside."""
        self.fault.strike(self.target)

    def heal(self) -> None:
        """Undo the effects."""
        if isinstance(self.fault, Heals):
            self.fault.heal(self.target)

    def release(self) -> None:
        """Do what the rank is to find when it goes on."""
        if isinstance(self.fault, Releases):
            self.fault.release(self.target)

    def goes_on(self) -> bool:
        """Go on with a strike that takes its time."""
        return isinstance(self.fault, GoesOn) and self.fault.goes_on(self.target)

    def look(self) -> Any:
        """Return what the witness sees before the strike."""
        return witness_of(self.fault).look(self.fault, self.target)

    def judge(self, evidence: Evidence[Any]) -> str | None:
        """Have the witness look again."""
        evidence.earlier, evidence.after = evidence.after, self.look()
        return witness_of(self.fault).judge(self.fault, evidence)

    def is_set(self, evidence: Evidence[Any]) -> bool:
        """Return whether the fault takes effect only once the rank goes on."""
        return witness_of(self.fault).is_set(self.fault, evidence)


@dataclass
class Far(Reach):
    """The reach on another node, where its deputy has the fault strike and the witness look.

    `kept` is not empty once the strike keeps something there. The looks stay there, too: here is only whether the one
    before the strike saw anything.
    """

    pid: NodePid
    facts: dict[str, Any]
    kept: dict[str, Any]

    def strike(self) -> None:
        """Strike from outside."""
        self._act("strike")

    def heal(self) -> None:
        """Undo the effects."""
        self._act("heal")

    def release(self) -> None:
        """Do what the rank is to find when it goes on."""
        self._act("release")

    def goes_on(self) -> bool:
        """Go on with a strike that takes its time."""
        return bool(self._act("go_on")["more"])

    def look(self) -> Any:
        """Return whether the witness sees anything before the strike."""
        return self.pid.node.ask("witness", self.facts)

    def judge(self, evidence: Evidence[Any]) -> str | None:
        """Have the witness look again."""
        reports = [{**report, "child": self.pid.number} for report in evidence.reports]
        seen = {"reports": reports, "seen": evidence.seen, "silent": evidence.silent}
        said = self.pid.node.ask("judge", self.facts, seen)
        # None but this object reads it.
        evidence.after = bool(said["set"])
        return None if said["proof"] is None else str(said["proof"])

    def is_set(self, evidence: Evidence[Any]) -> bool:
        """Return whether the fault takes effect only once the rank goes on."""
        return bool(evidence.after)

    def _act(self, what: str) -> Mapping[str, Any]:
        said: dict[str, Any] = self.pid.node.ask("strike", what, self.facts)
        if said["keeps"]:
            self.kept["there"] = True
        return said
