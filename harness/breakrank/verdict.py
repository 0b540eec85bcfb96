"""The verdict of a run: outcomes, findings, records, and the rules that decide."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from breakrank.causes import CAUSES, HAZARDS
from breakrank.errors import BreakrankError

#: The oracles that find what they look for at each seed, since it need not do harm.
ALWAYS_FOUND = ("race", "files")


class Outcome(enum.Enum):
    """The way in which the framework and the user's code took the fault."""

    VOID = "VOID"
    HUNG = "HUNG"
    CRASHED = "CRASHED"
    SILENT = "SILENT"
    DETECTED = "DETECTED"
    SURVIVED = "SURVIVED"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Finding:
    """One objection of one oracle. `step` is 0 where none can be named; `cause` is a key of `CAUSES`."""

    oracle: str
    cause: str
    ranks: tuple[int, ...] = ()
    step: int = 0
    attempt: int = 0
    places: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cause not in CAUSES:
            raise ValueError(f"{self.cause!r} is not among the causes of causes.py")
        names, numbers = (self.oracle, *self.places), (*self.ranks, self.step, self.attempt)
        if not all(isinstance(name, str) for name in names) or not all(isinstance(one, int) for one in numbers):
            raise ValueError(
                f"a finding has names for the oracle and places, and numbers otherwise: {names}, {numbers}"
            )

    def sentence(self) -> str:
        """Say the finding in one sentence.

        `since` among the evidence is the last step at which all was well, where those after it were not looked at.
        """
        waits = "wait" if len(self.ranks) > 1 else "waits"
        step = f"{self.step} of attempt {self.attempt}" if self.attempt else str(self.step)
        step += f" ({self.evidence['there']})" if self.evidence.get("there") else ""
        since = self.evidence.get("since")
        at = f"at step {step}" if since is None else f"between step {since} and step {step}"
        facts = {
            **{"waits": waits, "at": at, "when": at if self.step else "before the first step"},
            **self.evidence,
            **{"who": name_ranks(self.ranks), "step": step},
        }
        return CAUSES[self.cause].format_map(_Facts(facts))

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "oracle": self.oracle,
            "cause": self.cause,
            "ranks": list(self.ranks),
            "step": self.step,
            "attempt": self.attempt,
            "places": list(self.places),
            "evidence": self.evidence,
            "sentence": self.sentence(),
        }


class _Facts(dict[str, Any]):
    """The facts of a sentence; one that the evidence lacks is said to be unknown."""

    def __missing__(self, name: str) -> str:
        return f"(unknown {name})"


@dataclass(frozen=True)
class Record:
    """The outcome and finding that are known for a case; `rank` and the rest only where the finding is part of it.

    A `rank` below 0 counts from the end: -1 is the last one, however many there are.
    """

    outcome: Outcome
    oracle: str | None = None
    rank: int | None = None
    step: int | None = None
    cause: str | None = None

    def __post_init__(self) -> None:
        for name, value, kind in (("oracle", self.oracle, str), ("rank", self.rank, int), ("step", self.step, int)):
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                words = "the name of one" if kind is str else "one whole number"
                raise BreakrankError(f"a record has {name}={value!r}; it has to be {words}, or to be left out")
        if self.cause is not None and self.cause not in CAUSES:
            raise BreakrankError(f"a record names the cause {self.cause!r}; causes are {', '.join(CAUSES)}")

    def among(self, ranks: int) -> Record:
        """Return the record for a number of ranks."""
        return replace(self, rank=ranks + self.rank) if self.rank is not None and self.rank < 0 else self

    def matches(self, outcome: Outcome, findings: Sequence[Finding]) -> bool:
        """Return whether a verdict is as recorded: its outcome, and its first finding or that there is none."""
        if outcome is not self.outcome:
            return False
        if self.oracle is None and self.cause is None:
            return not findings
        if not findings:
            return False
        first = findings[0]
        return (
            self.oracle in (None, first.oracle)
            and self.cause in (None, first.cause)
            and self.step in (None, first.step)
            and (self.rank is None or self.rank in first.ranks)
        )

    def resembles(self, outcome: Outcome, findings: Sequence[Finding]) -> bool:
        """Return whether a verdict at another seed is of the record's kind: its outcome, by the same oracle first."""
        return Record(self.outcome, self.oracle).matches(outcome, findings)

    def allows(self, outcome: Outcome, findings: Sequence[Finding]) -> bool:
        """Return whether a verdict at another seed does not contradict the record.

        A sound program is sound at each. A broken one may do harm at one seed and none at another, unless what is on
        record is found whether or not it does harm.
        """
        if self.outcome in (Outcome.SURVIVED, Outcome.DETECTED):
            return outcome in (Outcome.SURVIVED, Outcome.DETECTED) and not findings
        if self.oracle in ALWAYS_FOUND and not any(finding.oracle == self.oracle for finding in findings):
            return False
        return outcome is not Outcome.VOID

    def words(self) -> str:
        """Say the record in short."""
        finding = [str(v) for v in (self.oracle, self.cause) if v is not None]
        if self.rank is not None:
            finding.append("the last rank" if self.rank == -1 else f"rank {self.rank}")
        if self.step is not None:
            finding.append(f"step {self.step}")
        return f"{self.outcome} ({', '.join(finding)})" if finding else str(self.outcome)


VOID = Record(Outcome.VOID)
HUNG = Record(Outcome.HUNG)
CRASHED = Record(Outcome.CRASHED)
SILENT = Record(Outcome.SILENT)
DETECTED = Record(Outcome.DETECTED)
SURVIVED = Record(Outcome.SURVIVED)


def hung(**finding: Any) -> Record:
    """Return the record HUNG with a finding (`oracle=`, `rank=`, `step=`, `cause=`)."""
    return Record(Outcome.HUNG, **finding)


def crashed(**finding: Any) -> Record:
    """Return the record CRASHED with a finding."""
    return Record(Outcome.CRASHED, **finding)


def silent(**finding: Any) -> Record:
    """Return the record SILENT with a finding."""
    return Record(Outcome.SILENT, **finding)


def detected(**finding: Any) -> Record:
    """Return the record DETECTED with a finding."""
    return Record(Outcome.DETECTED, **finding)


def survived(**finding: Any) -> Record:
    """Return the record SURVIVED; a finding makes no sense with it and is refused."""
    if finding:
        raise BreakrankError("a case on record as SURVIVED has no finding")
    return SURVIVED


class Ended(enum.Enum):
    """The end of one rank of the last attempt, as the rules see it."""

    WELL = "ended well"
    REPORTED = "reported"
    CRASHED = "died of a signal that nobody sent"
    STRUCK = "ended or stopped by the injector"
    HUNG = "ended by us, waiting"
    COLLATERAL = "ended by us, after another rank had failed"


def decide(
    ends: dict[int, Ended], findings: Sequence[Finding], void: Sequence[str] = (), launcher_reported: bool = False
) -> Outcome:
    """Return the outcome: the first rule of the design that matches.

    `ends` is the last attempt's, by rank; `void` holds the reasons why nothing can be said.
    """
    kinds = set(ends.values())
    if void or not ends or kinds == {Ended.STRUCK}:
        return Outcome.VOID
    if Ended.HUNG in kinds:
        return Outcome.HUNG
    if Ended.CRASHED in kinds:
        return Outcome.CRASHED
    reported = Ended.REPORTED in kinds or launcher_reported
    well = {rank for rank, end in ends.items() if end is Ended.WELL}
    if findings and (not reported or any(well & set(f.ranks) for f in findings)):
        return Outcome.SILENT
    if reported:
        return Outcome.DETECTED
    if well and kinds <= {Ended.WELL, Ended.STRUCK}:
        return Outcome.SURVIVED
    return Outcome.VOID


@dataclass(frozen=True)
class Blame:
    """The blame: a set of ranks, possibly empty, and the reason in a clause."""

    ranks: tuple[int, ...] = ()
    reason: str = ""

    def words(self) -> str:
        """Say it."""
        return f"{name_ranks(self.ranks)}: {self.reason}" if self.ranks else self.reason or "nobody can be named"


@dataclass(frozen=True)
class Verdict:
    """The judgement of one run. `latency_s` runs from the first strike fired to the first report, if there were both.

    `also` are findings of oracles that the scenario does not name; a user's script has none of these, as each counts.
    `reported` says who reported what, `crashed` who died of what; `void` why nothing can be said; `abstained` which
    oracles did not judge, and why. `findings` are the last attempt's: those of earlier attempts are among the `notes`.
    `heard` is a rank's report as a finding is named, for lists: no oracle found it, so that no record holds it.
    """

    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    blame: Blame = field(default_factory=Blame)
    latency_s: float | None = None
    reported: tuple[str, ...] = ()
    crashed: tuple[str, ...] = ()
    void: tuple[str, ...] = ()
    abstained: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    digest: str = ""
    accused: tuple[str, ...] = ()
    also: tuple[Finding, ...] = ()
    heard: str = ""

    @property
    def harmed(self) -> bool:
        """True if harm was done: some finding is more than a hazard."""
        return any(finding.cause not in HAZARDS for finding in self.findings)

    def sentence(self) -> str:
        """Say in one sentence what happened."""
        if self.outcome is Outcome.VOID:
            return self.void[0] if self.void else "nothing can be said: no rule matches how the ranks ended"
        objections = tuple(f.sentence() for f in self.findings)
        deaths = tuple(f.sentence() for f in self.findings if f.cause in ("killed by a signal", "out of memory"))
        said = {
            Outcome.CRASHED: deaths + self._because() + self.crashed,
            Outcome.DETECTED: self.reported + objections,
            Outcome.HUNG: (*objections, "a rank had to be ended by us"),
        }.get(self.outcome, objections)
        return said[0] if said else "no rank reported and no oracle objects"

    def _because(self) -> tuple[str, ...]:
        """Return the sentence of a death in collectives that ranks called unlike, which is no finding of its own."""
        unlike = [finding for finding in self.findings[:1] if finding.oracle == "collectives"]
        return tuple(f"{finding.sentence()}; {self.crashed[0]}" for finding in unlike if self.crashed)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "outcome": str(self.outcome),
            "sentence": self.sentence(),
            "findings": [f.to_json() for f in self.findings],
            "also": [f.to_json() for f in self.also],
            "blame": {"ranks": list(self.blame.ranks), "reason": self.blame.reason},
            "latency_s": self.latency_s,
            "reported": list(self.reported),
            "crashed": list(self.crashed),
            "void": list(self.void),
            "abstained": self.abstained,
            "notes": list(self.notes),
            "digest": self.digest,
            "accused": list(self.accused),
        }


def listed(names: Iterable[str]) -> str:
    """Return names as a list in words: `a`, `a and b`, `a, b and c`; empty if there are none."""
    *most, last = [*names] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def name_ranks(ranks: Sequence[int]) -> str:
    """Return `rank 1`, `ranks 0 and 2`, `ranks 0, 1 and 2`, or `the job`."""
    if not ranks:
        return "the job"
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed(map(str, ranks))}"
