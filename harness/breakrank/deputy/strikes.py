"""Strikes on ranks of this node, and the looks of their witnesses: the faults and witnesses themselves act here."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from breakrank.deputy.ranks import Ranks
from breakrank.witnesses import Evidence, witness_of
from breakrank_agent.kernel.rooted import WorkingFolder
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.fault import Fault, GoesOn, Heals, Releases


class Peers(dict[int, int]):
    """The other ranks of this node, by number. Those of other nodes raise `OSError`: nothing of theirs is seen here."""

    def get(self, rank: int, default: Any = None) -> Any:
        """Return a rank's process."""
        return self[rank]

    def __missing__(self, rank: int) -> int:
        raise OSError(f"rank {rank} is on another host, and its connections are not seen from here")


@dataclass
class RankHere:
    """A rank of this node as a fault sees it. It has no walls, no control group and no journal of ours."""

    ranks: Ranks
    number: int
    rank: int
    pid: int
    folder: str
    peers: Mapping[int, int]
    store: int
    kept: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence[Any] = field(default_factory=Evidence)

    @property
    def around(self) -> Mapping[int, Any]:
        """The walls around each rank of the job that has some."""
        return {}

    @property
    def walls(self) -> NoReturn:
        """The walls around the rank, which a rank of another host has none of."""
        self.walls_of(self.rank)

    @property
    def group(self) -> NoReturn:
        """The rank's control group, which a deputy makes none of."""
        raise OSError("a rank of another host has no control group of ours; use --scenario-runner=process")

    @property
    def task(self) -> NoReturn:
        """The task of Slurm's that the rank is: its controller is asked where pytest runs."""
        raise OSError("a strike of the cluster is not done by a deputy")

    @property
    def disk(self) -> NoReturn:
        """The disk below the working folder, which is not followed here."""
        raise OSError("the writes of a rank of another host are not watched; use --scenario-runner=process")

    @property
    def calls(self) -> NoReturn:
        """The rank's calls on files, which are not watched here."""
        raise OSError("the calls of a rank of another host on files are not watched; use --scenario-runner=process")

    def walls_of(self, rank: int) -> NoReturn:
        """Return the walls around a rank of the job, of which there are none."""
        raise OSError(f"there are no walls around a rank {rank} of another host; use --scenario-runner=sandbox")

    def files(self) -> WorkingFolder:
        """Return the working folder."""
        return WorkingFolder(0, self.folder)

    def laid(self) -> WorkingFolder:
        """Return the working folder, over which nothing is mounted here."""
        return self.files()

    def seen(self) -> WorkingFolder:
        """Return the working folder as it lies in the rank's own root."""
        return WorkingFolder(self.pid, self.folder)

    def at_rest(self) -> NoReturn:
        """Return whether the ranks stand still, of which those of other nodes are not seen here."""
        raise OSError("the ranks of other hosts are not seen from here; use --scenario-runner=process")

    def signal(self, number: int) -> None:
        """Send a signal to the rank."""
        self.ranks.signal(self.pid, number)

    def start(self, script: str, *arguments: str) -> NoReturn:
        """Start a script of ours in the rank's network, which is not the rank's own here."""
        raise OSError("the network of another host is not ours to change; use --scenario-runner=sandbox")

    def stop(self, pid: int) -> None:
        """End a process that `start` has started, of which there is none."""


class Strikes:
    """The strikes of the plan that lies in our folder."""

    def __init__(self, ranks: Ranks, folder: Path) -> None:
        self._ranks, self._folder = ranks, folder
        self._plan: Plan | None = None
        self._targets: dict[tuple[int, int, int], RankHere] = {}

    def act(self, what: str, facts: dict[str, Any]) -> dict[str, bool]:
        """Strike, heal, release, or go on with it; return whether it goes on, and whether it keeps values to heal by.

        Raises `OSError` with the reason why the rank, or the machine, does not let it.
        """
        fault, target = self._find(facts)
        more = False
        if what == "strike":
            fault.strike(target)
        elif what == "heal" and isinstance(fault, Heals):
            fault.heal(target)
        elif what == "release" and isinstance(fault, Releases):
            fault.release(target)
        elif what == "go_on" and isinstance(fault, GoesOn):
            more = bool(fault.goes_on(target))
        return {"more": more, "keeps": bool(target.kept)}

    def look(self, facts: dict[str, Any]) -> bool:
        """Have the witness look before the strike; return whether it saw anything."""
        fault, target = self._find(facts)
        target.evidence = Evidence(before=_look(fault, target))
        return bool(target.evidence.before)

    def judge(self, facts: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
        """Have the witness look again, and judge; return its proof, and whether the strike is set."""
        fault, target = self._find(facts)
        witness, evidence = witness_of(fault), target.evidence
        evidence.earlier, evidence.after = evidence.after, _look(fault, target)
        evidence.reports, evidence.seen, evidence.silent = seen["reports"], seen["seen"], seen["silent"]
        return {"proof": witness.judge(fault, evidence), "set": witness.is_set(fault, evidence)}

    def _find(self, facts: dict[str, Any]) -> tuple[Fault, RankHere]:
        if self._plan is None:
            self._plan = Plan.loads((self._folder / "plan.json").read_text(), "plan.json")
        key = facts["number"], facts["rank"], facts["pid"]
        peers = Peers((int(rank), pid) for rank, pid in facts["peers"].items())
        if key not in self._targets:
            self._targets[key] = RankHere(self._ranks, *key, facts["folder"], peers, facts["store"])
        return self._plan.strikes[facts["number"]].fault, self._targets[key]


def _look(fault: Fault, target: RankHere) -> Any:
    """Return what the witness sees; None if it cannot look from this node."""
    with contextlib.suppress(OSError):
        return witness_of(fault).look(fault, target)
    return None
