"""Scenarios: a job, the strikes on it, the oracles that judge it, and the record of each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from breakrank.plan.slips import check_case, check_scenario
from breakrank.verdict import Outcome, Record
from breakrank_agent.plan import Schedule
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.frameworks import DEFAULT, profile

#: The oracles of a scenario that names no others; their order is the order of findings at one step.
DEFAULT_ORACLES = (
    *("crash", "ends", "progress", "optimizers", "finite", "replicas", "buffers", "samples", "control", "checkpoint"),
    "moments",
)


@dataclass(frozen=True)
class Job:
    """The job: its ranks, its steps, its restarts and its data.

    An `elastic` job is restarted without the ranks that a signal has ended, as by a launcher that has no host to spare,
    until `Rejoin` brings one.
    `deadline_s` is how long no rank may reach a new point; `data` names what is laid into the working folder. `digests`
    says which steps' parameters and batches are digested: `every`, `sparse` or `none`.
    """

    ranks: int = 2
    steps: int = 5
    restarts: int = 0
    elastic: bool = False
    deadline_s: float = 30.0
    patience_s: float = 0.0
    data: str = "digits"
    digests: str = "every"


@dataclass(frozen=True)
class Case:
    """One subject of a scenario, and its record.

    `program` is `module:function`. `control` is another program (the sound twin), or empty: then the same program
    without the strikes, if there are strikes. `ranks`, `restarts` and `strikes` replace the scenario's for this case;
    twins have the same. `sound` says which twin it is, for the conformance suite; by default a case on record as
    SURVIVED or DETECTED is sound.

    The dimensions of a case: `environment`, such as `{"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}`, is set before a framework
    is imported, and `NAME@1` on rank 1 alone, as on a host with other settings; `patience_s` is how long a proven wait
    may go on, so that the framework's own time-out can speak. The record holds for just these: another debug mode or
    time-out is another case. It holds under every runner but those that `on` has another one for, by name, and for each
    number of ranks below the first one of `at`, which has another record from there on. `sizes` are the numbers of
    ranks that the program is for, if it is not for any; a program that has one rank alone is for one.
    """

    name: str
    program: str
    expect: Record
    framework: str = DEFAULT
    needs: tuple[str, ...] = ()
    control: str = ""
    tolerance: float = 0.0
    ranks: int | None = None
    restarts: int | None = None
    strikes: tuple[Strike, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    patience_s: float | None = None
    on: Mapping[str, Record] = field(default_factory=dict)
    at: Mapping[int, Record] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_case(vars(self))

    def record(self, runner: str, ranks: int) -> Record:
        """Return what is known of the case under a runner, with a number of ranks."""
        reached = [size for size in self.at if size <= ranks]
        return (self.at[max(reached)] if reached else self.on.get(runner, self.expect)).among(ranks)

    def words(self) -> str:
        """Say the record, and those of single runners and of more ranks."""
        others = [f"in {name}: {record.words()}" for name, record in sorted(self.on.items())]
        others += [f"from {size} ranks on: {record.words()}" for size, record in sorted(self.at.items())]
        others += [f"for {' or '.join(map(str, self.sizes))} ranks alone"] * bool(self.sizes)
        return "; ".join([self.expect.words(), *others])

    @property
    def sound(self) -> bool:
        """True if the record says that the program copes."""
        return self.expect.outcome in (Outcome.SURVIVED, Outcome.DETECTED)


@dataclass(frozen=True)
class Scenario:
    """A named experiment: one file in `scenarios/`, one value `SCENARIO`.

    `on_scripts` are strikes for a user's own script, each tried by itself, where the scenario's own strike only what
    comes with its programs. A `checkup` runs a script three times undisturbed, and strikes nothing. `without` says of a
    framework that has no case here why not. `name`, `summary` and `path` come from the file.
    """

    cases: Sequence[Case]
    job: Job = field(default_factory=Job)
    strikes: Sequence[Strike] = ()
    schedule: Schedule = field(default_factory=Schedule)
    oracles: Sequence[str] = DEFAULT_ORACLES
    on_scripts: Sequence[Strike] = ()
    checkup: bool = False
    without: Mapping[str, str] = field(default_factory=dict)
    family: str = ""
    name: str = ""
    summary: str = ""
    path: Path = Path()

    def __post_init__(self) -> None:
        check_scenario(vars(self), Case)

    def oracles_of(self, case: Case) -> tuple[str, ...]:
        """Return what judges a case: the scenario's oracles, and where these are the default, its framework's own.

        A user's script has to ask for its framework's own: what these object to may be as its author means it.
        """
        own = profile(case.framework).oracles
        if not own or tuple(self.oracles) != DEFAULT_ORACLES or not case.program:
            return tuple(self.oracles)
        # Before the results are looked at.
        before = DEFAULT_ORACLES.index("finite")
        return (*DEFAULT_ORACLES[:before], *own, *DEFAULT_ORACLES[before:])

    def sizes_of(self, case: Case) -> tuple[int, ...]:
        """Return the numbers of ranks that the program of a case is for; empty if it is for any, or is none of ours."""
        ranks = self.job.ranks if case.ranks is None else case.ranks
        return case.sizes or ((1,) if case.program and ranks == 1 else ())

    def named(self, name: str, summary: str, path: Path) -> Scenario:
        """Return the scenario with what its file says of it."""
        return replace(self, name=name, summary=summary, path=path)


def controlled(policy: str, split: bool = False, depth: int = 3, length: int = 100) -> Schedule:
    """Return the schedule under which one rank or thread moves at a time, chosen by `policy` (a file of `schedules/`).

    `split` makes an operator that reads and writes the same storage two moves; `depth` and `length` are for `pct`.
    """
    return Schedule("controlled", policy, split, depth, length)


def free() -> Schedule:
    """Return the schedule of full speed."""
    return Schedule()
