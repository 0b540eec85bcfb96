"""The verdict of a run: outcomes, findings, records, and the rules that decide."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from breakrank.errors import BreakrankError

#: The closed list of causes, each with the sentence that is made of it. `{who}` is one or several ranks, `{step}` a
#: step, and the other names come from the finding's evidence.
CAUSES: dict[str, str] = {
    "lost update": "{how}",
    "wrong result": "the result of {who} differs from the control's, first at step {step}",
    "replicas differ": "the parameters of {who} part from {others} at step {step}{first}",
    "samples lost": "{count} of {expected} samples did not reach the final state, the first at step {step}",
    "samples duplicated": "{count} samples were trained on more often than in the control, the first at step {step}",
    "non-finite value": "{what} in {who} at step {step}",
    "no checkpoint": "nothing can be resumed from: {what}",
    "torn checkpoint": "the checkpoint {path}, read by {who}, is not as it was written",
    "leak": "at each step from step {step} on, {who} kept {more}, {made}",
    "native leak": "from step {step} on, {who} kept {bytes_per_step} bytes more of the C heap at each step",
    "interleaved file": "{path} holds what no rank has written: the writes of {who} at step {step} are mixed",
    "lost write": "{path} lacks what rank {loser} wrote at step {step}: rank {winner} {how}",
    "training incomplete": "{who} ended with exit code 0 after {done} of {expected} steps",
    "parameters frozen": "the parameters of {who} did not change at step {step}",
    "loss not decreasing": "{who} ended with loss {loss}, and its program asks for less than {goal}",
    "peer stopped": "{who} {waits} in {where} at step {step} for rank {peer}, which stands still{would}",
    "peer ended": "{who} {waits} in {where} at step {step} for rank {peer}, which has ended{would}",
    "deadlock": "{who} {waits} in {where} at step {step} for each other, and for nobody else{would}",
    "endless training": "{who} did not end by itself: a job of {expected} steps had come to step {step}",
    "no progress": "{who} reached no new point for {seconds} s, last seen in {where} at step {step}{absent}",
    "participant missing": "{wait}, which {whom} will never enter{elsewhere}{would}",
    "crossed process groups": "{wait}, which {whom} will enter only after a collective of "
    "another group{elsewhere}{would}",
    "unmatched receive": "{wait}, which {whom} never sends{elsewhere}{would}",
    "unmatched send": "{wait}, which {whom} never receives{elsewhere}{would}",
    "blocked in a lock": "{wait}, which {whom} will never enter, waiting for a lock "
    "or queue of its own process{elsewhere}{would}",
    "rank missing": "{wait}, to which {whom} will never come{elsewhere}{would}",
    "duplicate rank": "{wait}, to which {whom} came under the number of another rank{elsewhere}{would}",
    "world size mismatch": "{wait}, but {whom} came with another world size{elsewhere}{would}",
    "master mismatch": "{wait}, but {whom} came to another master{elsewhere}{would}",
    "backend mismatch": "{wait}, but {whom} came with another backend{elsewhere}{would}",
    "interface mismatch": "{wait}, but {whom} came on another interface{elsewhere}{would}",
    "collective mismatch": "collective {number} of a group is not the same on all ranks at step {step}: {held}",
    "root mismatch": "{op} {number} has no one root at step {step}: {held}",
    "reduce op mismatch": "{op} {number} reduces in several ways at step {step}: {held}",
    "dtype mismatch": "{op} {number} is of several dtypes at step {step}: {held}",
    "shape mismatch": "{op} {number} is of several sizes at step {step}: {held}",
    "layout mismatch": "{op} {number} takes the elements in several orders at step {step}: {held}",
    "order mismatch": "collective {number} of a group is out of order at step {step}: {held}",
    "calls misaligned": "collective {number} of a group came out of turn at step {step}: {held}",
    "collective skipped": "{who} left out {op} ({site}) at step {step}, which is collective {number} of {others}",
    "collective added": "{who} called {op} ({site}) as collective {number} at step {step}, which {others} did not",
    "wrong collective result": "{op} {number} ({site}) is wrong on {who} at step {step}: {how}",
    "buffer overrun": "{op} {number} ({site}) changed what it must not on {who} at step {step}",
    "wrapper bypassed": "replicas part at step {step}{first}: {who} went past the wrapper that reduces gradients",
    "gradients not reduced": "replicas part at step {step}{first}: the last backward of {who} reduced nothing",
    "parameter replaced": "replicas part at step {step}{first}: put in later, the wrapper of {who} does not know it",
    "unused parameter": "replicas part at step {step}{first}: {who} had no gradient for it, and others had",
    "reduction incomplete": "replicas part at step {step}{first}: for lack of {lacking}, {who} did not reduce it",
    "per-rank loss scaling": "{who} weigh samples otherwise than one rank would, from "
    "step {step} on: batches of {sizes}",
    "reference mismatch": "the parameters of {who} part from those of one rank on the "
    "same batches at step {step}{first}",
    "data race": "at step {step} {one} and {other}, with nothing between them: {what}",
    "lock cycle": "{who} cannot go on at step {step}: {cycle}",
    "file race": "at step {step} {one} and {other} with nothing between them",
    "rename race": "at step {step} {one} and {other} with nothing between them: it is whoever comes last's",
    "killed by a signal": "{who} died of {signal} at step {step} {where}{meanwhile}",
    "connection held by orphan": "{who} {waits} in {where} at step {step} for rank {peer}, which has ended and left a "
    "process behind that holds its connections open{would}",
    "unreachable": "{wait}, and {shown}{elsewhere}{would}",
    "out of memory": "the kernel killed {who} at step {step}: its control group had no memory left",
    "cluster mismatch": "{wait}, but {whom} came with another list of workers{elsewhere}{would}",
    "proxy in path": "{wait}, but {whom} asks a proxy for the way to its peers{elsewhere}{would}",
    "append race": "at step {step} {one} and {other}, in whichever order they come",
    "unreduced assignment": "replicas part at step {step}{first}: {site} assigns to it {how}, with nothing to reduce",
    "local replicas differ": "the replicas of {who} part at step {step}{first}",
    "device missing": "{who} asked for {device}, which is not there, and trained on {on} at step {step}",
    "single device": "all that {who} trained at step {step} lay on {device}, and nothing of it on {idle}",
    "variable not mirrored": "{who} trained {names} at step {step}, beside the {kind}: nothing holds replicas alike",
    "strategy bypassed": "{who} made step {step} past the {kind}: of {replicas} replicas one computed",
    "batch not split": "{who} handed one batch to all {replicas} replicas of the {kind} at step {step}",
    "aliased parameters": "{who} trained {names} twice at step {step}: two layers have one memory",
    "idle replica": "{idle} had an empty batch at step {step}, and the others {samples} samples",
    "batch mismatch": "the result differs from the control's at step {step}, where {who} alone had another batch{how}",
    "replica not aggregated": "the result of {who} differs from the control's at step {step}: no gradient of {whose} "
    "goes into {into} ({site})",
    "stale gradients": "the result of {who} differs from the control's at step {step}: into {into} goes what was kept, "
    "and no gradient of that step ({site})",
    "partial restore": "{who} went on at step {step} with less of the checkpoint {path} than the control: {said}",
    "samples changed": "{count} of the samples of {who} are none of the control's, the first at step {step}",
    "duplicate shard": "{who} trained on the same samples, from step {step} on: "
    "{count} of {expected} took others' places",
}
#: Causes that are found whether or not they did harm in this run.
HAZARDS = frozenset(("data race", "file race", "rename race", "append race"))
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
            raise ValueError(f"{self.cause!r} is not among the causes of verdict.py")

    def sentence(self) -> str:
        """Say the finding in one sentence."""
        waits = "wait" if len(self.ranks) > 1 else "waits"
        step = f"{self.step} of attempt {self.attempt}" if self.attempt else str(self.step)
        facts = {"waits": waits, **self.evidence, "who": name_ranks(self.ranks), "step": step}
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
    """

    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    also: tuple[Finding, ...] = ()
    blame: Blame = field(default_factory=Blame)
    latency_s: float | None = None
    reported: tuple[str, ...] = ()
    crashed: tuple[str, ...] = ()
    void: tuple[str, ...] = ()
    abstained: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    digest: str = ""
    accused: tuple[str, ...] = ()

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
            Outcome.CRASHED: deaths + self.crashed + objections,
            Outcome.DETECTED: self.reported + objections,
            Outcome.HUNG: (*objections, "a rank had to be ended by us"),
        }.get(self.outcome, objections)
        return said[0] if said else "no rank reported and no oracle objects"

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
