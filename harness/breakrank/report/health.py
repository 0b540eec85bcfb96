"""The health sheet of a check-up: of each property of a training, whether it is well, wrong, or was not seen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breakrank.analysis.error_words import users_line
from breakrank.causes import CAUSES_BY_PROPERTY, PROPERTY_OF, VAGUE
from breakrank.files.bounded import plain
from breakrank.judge.blame import LOST
from breakrank.oracles import oracles_of
from breakrank.report.terminal import align
from breakrank.runs.checkup import REFERENCE, RESUME, Checkup, Look
from breakrank.runs.provenance import read_meta
from breakrank.runs.saved_run import NOT_AMONG_PEERS
from breakrank.verdict import Finding, Outcome
from breakrank_agent.protocol.evidence import EVIDENCE

WELL, WRONG, NOT_SEEN = "well", "wrong", "not seen"
#: The colour of each state on a terminal, which never stands alone.
_COLOURS = {WELL: "32", WRONG: "31;1", NOT_SEEN: "33"}
#: The sentence about each property that is well.
_SEEN: Mapping[str, str] = {
    "replicas": "alike wherever they were compared",
    "samples": "the same in each run, by index where there are indices",
    "collectives": "each rank called the same, and each got what it should",
    "gradients and optimizer": "zeroed, and taken by the optimizers of what is in use; no --reference was given",
    "numbers": "all finite",
    "memory": "nothing is kept from step to step",
    "races": "no two accesses without an order between them",
    "files": "no two accesses without an order between them",
    "checkpoint": "left whole",
    "resume": "ended like the run that nobody stopped",
}
#: The same where a reference was compared.
_AS_ONE_RANK = "as those of one rank on the same batches"
#: Reasons of oracles, as they read where there is no scenario.
_WORDS: Mapping[str, str] = {
    "there is no run of the same training as one rank": "no --reference was given",
    "there is no control that says whether checkpoints belong to the job": "it takes two runs to tell",
    "the control saved no checkpoint": "the script saved none",
}
#: A line of the user's code among the places of a finding.
_SITE = re.compile(r"\S+\.py:\d+")


@dataclass(frozen=True)
class Line:
    """One property: its state, the sentence or reason, and the line of the user's code, if one is known."""

    name: str
    state: str
    said: str
    place: str = ""
    run: str = ""

    @property
    def words(self) -> str:
        """The sentence, with the line of code where it does not name it itself."""
        return f"{self.said} ({self.place})" if self.place and self.place not in self.said else self.said


@dataclass(frozen=True)
class Health:
    """The sheet of a check-up."""

    checkup: Checkup
    lines: tuple[Line, ...]

    @property
    def wrong(self) -> tuple[Line, ...]:
        """The properties that are wrong; how the job ended comes last where another one explains it."""
        found = [line for line in self.lines if line.state == WRONG]
        return tuple(sorted(found, key=lambda line: line.name == "ends"))

    @property
    def well(self) -> bool:
        """True if nothing is wrong, and enough was seen to say so."""
        return self.status == 0

    @property
    def status(self) -> int:
        """The exit code: 1 if something is wrong, 2 if too little was seen, else 0."""
        if self.wrong:
            return 1
        light = self.checkup.looks[0]
        return 2 if light.verdict.outcome is Outcome.VOID else 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was found, each once."""
        return tuple(finding for _, finding in _found(self.checkup.looks))

    @property
    def shown(self) -> Look:
        """The run that shows what is wrong, else the first one."""
        run = self.wrong[0].run if self.wrong else ""
        return self.checkup.look(run) or self.checkup.looks[0]

    @property
    def headline(self) -> str:
        """Say in one line what came of it."""
        if self.wrong:
            return f"{self.wrong[0].name}: {self.wrong[0].words}"
        if self.status:
            return f"too little was seen: {self.checkup.looks[0].verdict.sentence()}"
        unseen = [line.name for line in self.lines if line.state == NOT_SEEN]
        return "nothing is wrong in what was seen" + (f"; not seen: {', '.join(unseen)}" if unseen else "")

    def text(self, repeat: str, colour: bool = False) -> str:
        """Return the sheet, the headline with blame, where the runs are, and the line that repeats it."""
        lines = [*self._table(colour), *(f"note: {note}" for note in self.notes()), "", self.headline]
        if self.wrong:
            lines.append(f"blame: {_blame(self.shown)}")
        lines += [
            f"{look.name + ':':<10}{look.verdict.outcome}, {look.seconds:.1f} s, {look.saved.folder}"
            for look in self.checkup.every
        ]
        return "\n".join([*map(plain if not colour else str, lines), f"again: {plain(repeat)}"])

    def _table(self, colour: bool) -> Iterator[str]:
        rows = align([[line.name, line.state, line.words] for line in self.lines])
        for line, row in zip(self.lines, map(plain, rows), strict=True):
            code = _COLOURS[line.state]
            yield row.replace(line.state, f"\x1b[{code}m{line.state}\x1b[0m", 1) if colour else row

    def notes(self) -> list[str]:
        """Return what limits the sheet."""
        found = []
        cut = [f"{look.name} at step {look.steps}" for look in self.checkup.every if look.cut]
        if cut:
            budget = f"the budget of {self.checkup.order.budget_s:g} s"
            found.append(f"{budget} was spent: runs were ended early, {', '.join(cut)}")
        if self.checkup.parted is not None:
            parted = self.checkup.parted
            found.append(f"not reproducible: from step {parted.step} on two undisturbed runs differ: {parted.words}")
        every = [note for look in self.checkup.looks for note in look.verdict.notes]
        return [*found, *dict.fromkeys(every)]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        meta = read_meta(self.checkup.looks[0].saved.folder)
        versions = {k: v for k, v in meta.items() if k in ("breakrank", "python", "torch", "tensorflow", "platform")}
        return {
            "status": self.status,
            "headline": self.headline,
            "properties": [
                {"name": one.name, "state": one.state, "said": one.said, "place": one.place, "run": one.run}
                for one in self.lines
            ],
            "findings": [{"run": look.name, **finding.to_json()} for look, finding in _found(self.checkup.looks)],
            "notes": self.notes(),
            "runs": [_run_json(look) for look in self.checkup.every],
            "seconds": round(self.checkup.seconds, 3),
            "versions": versions,
        }


def _blame(look: Look) -> str:
    """Say who is to blame, and do not say again what the headline has said."""
    first = [f": {finding.sentence()}" for finding in look.verdict.findings[:1]]
    return look.verdict.blame.words().removesuffix("".join(first))


def _run_json(look: Look) -> dict[str, Any]:
    return {
        "name": look.name,
        "folder": str(look.saved.folder),
        "outcome": str(look.verdict.outcome),
        "steps": look.steps,
        "seconds": round(look.seconds, 3),
        "evidence": list(look.saved.plan.evidence),
        "digest": look.verdict.digest,
        "blame": {"ranks": list(look.verdict.blame.ranks), "reason": look.verdict.blame.reason},
    }


def health(checkup: Checkup) -> Health:
    """Return the sheet of a check-up."""
    return Health(checkup, tuple(_line(name, checkup) for name in CAUSES_BY_PROPERTY))


def _found(looks: Sequence[Look]) -> Iterator[tuple[Look, Finding]]:
    """Yield each finding with the run that shows it first; one that a later run shows again counts once."""
    seen = set()
    for look in looks:
        for finding in look.verdict.findings:
            what = (finding.oracle, finding.cause, finding.ranks)
            if what not in seen:
                seen.add(what)
                yield look, finding


def _line(name: str, checkup: Checkup) -> Line:
    """Return what is known of a property."""
    found = [(look, finding) for look, finding in _found(checkup.looks) if PROPERTY_OF[finding.cause] == name]
    if found:
        found.sort(key=lambda pair: pair[1].cause in VAGUE)
        look, finding = found[0]
        others = list(dict.fromkeys(other.cause for _, other in found if other.cause != finding.cause))
        more = f". Also: {', '.join(others)}" if others else ""
        return Line(name, WRONG, f"{finding.sentence()}{more}", _place_of(finding), look.name)
    if name == "ends":
        return _ends(checkup)
    if name == "samples":
        return Line(name, NOT_SEEN, checkup.samples) if checkup.samples else Line(name, WELL, _SEEN[name])
    if name == "resume":
        return _resumed(checkup)
    reference = checkup.reference
    if reference is not None and "reference" in oracles_of(name):
        return _referred(name, checkup, reference)
    return _judged(name, checkup)


def _referred(name: str, checkup: Checkup, reference: Look) -> Line:
    """Return how a property stands that is compared with the same training as one rank."""
    if reference.failed:
        return Line(name, NOT_SEEN, f"the reference failed: {_error(reference)}", _place_of_error(reference), REFERENCE)
    compared = any("reference" not in look.verdict.abstained for look in checkup.looks)
    return Line(name, WELL, _AS_ONE_RANK) if compared else _judged(name, checkup)


def _ends(checkup: Checkup) -> Line:
    """Return how the runs ended, if no finding says it."""
    for look in checkup.looks:
        if look.failed:
            return Line("ends", WRONG, _why(look), _place_of_error(look), look.name)
    if checkup.looks[0].verdict.outcome is Outcome.VOID:
        return Line("ends", NOT_SEEN, checkup.looks[0].verdict.sentence())
    if all(look.cut for look in checkup.looks):
        return Line("ends", NOT_SEEN, "each run was ended early")
    steps = " and ".join(dict.fromkeys(str(look.steps) for look in checkup.looks))
    return Line("ends", WELL, f"{len(checkup.looks)} runs of {steps} steps, each ended by itself")


def _why(look: Look) -> str:
    """Say how a job failed: if what was reported first is the loss of a peer that went, what is known of that peer."""
    verdict, error = look.verdict, _error(look)
    lost = look.saved.history.last and not verdict.crashed and LOST.search(error) is not None
    if not lost or not verdict.blame.ranks or any(f"rank {rank} reported" in error for rank in verdict.blame.ranks):
        return error
    return f"{verdict.blame.words()}. So {error}"


def _error(look: Look) -> str:
    """Say how a job failed that did not come to its end."""
    verdict = look.verdict
    return next(iter((*verdict.crashed, *verdict.reported)), verdict.sentence())


def _resumed(checkup: Checkup) -> Line:
    """Return whether the job went on after its ranks were killed as if nobody had stopped it."""
    look, name = checkup.resumed, "resume"
    if look is None:
        return Line(name, NOT_SEEN, checkup.unresumed or "no --resume was given")
    verdict, history = look.verdict, look.saved.history
    if look.failed and history.attempts[-1:] != [0]:
        return Line(name, WRONG, f"the second start failed: {_error(look)}", _place_of_error(look), RESUME)
    if verdict.outcome is Outcome.VOID:
        return Line(name, NOT_SEEN, verdict.sentence())
    compared = "control" not in verdict.abstained and not any(n.startswith("result not") for n in verdict.notes)
    restored = any(lived.payloads("restore") or lived.of_kind("restored") for lived in history.last)
    # If no restore is on record, nothing says which steps the state contained that the ranks went on from.
    counted = [f for f in verdict.findings if restored or f.oracle not in ("ends", "samples")]
    if counted:
        return Line(name, WRONG, counted[0].sentence(), _place_of(counted[0]), RESUME)
    if not restored and look.steps >= checkup.looks[0].steps:
        return Line(name, NOT_SEEN, "the second start began anew: it restored nothing, and made every step again")
    if compared:
        return Line(name, WELL, _SEEN[name])
    if restored and "samples" not in verdict.abstained:
        return Line(name, WELL, "trained on the same samples; the result differs from run to run by itself")
    return Line(name, NOT_SEEN, "the result differs from run to run by itself, and samples are not on record")


def _judged(name: str, checkup: Checkup) -> Line:
    """Return whether an oracle of the property has judged a run, and else why the first of them has not."""
    sound = [look for look in checkup.looks if not look.failed and look.verdict.outcome is not Outcome.VOID]
    if not sound:
        failed = "the script failed by itself" if checkup.looks[0].failed else "too little was seen"
        return Line(name, NOT_SEEN, failed)
    for look in sound:
        if any(oracle not in look.verdict.abstained and oracle not in NOT_AMONG_PEERS for oracle in oracles_of(name)):
            return Line(name, WELL, _SEEN[name])
    first = oracles_of(name)[0]
    needed = {kind for kind, readers in EVIDENCE.items() if first in readers}
    best = max(sound, key=lambda look: len(needed.intersection(look.saved.plan.evidence)))
    reason = best.verdict.abstained[first]
    return Line(name, NOT_SEEN, _WORDS.get(reason, reason))


def _place_of(finding: Finding) -> str:
    """Return the line of the user's code that a finding names beside its sentence."""
    return next((place for place in finding.places if _SITE.fullmatch(place)), "")


def _place_of_error(look: Look) -> str:
    """Return the innermost line of the user's code in the first error that a rank reported."""
    reports = [lived.report for lived in look.saved.history.last if lived.report is not None]
    first = min(reports, key=lambda report: report["t"], default=None)
    return users_line(first["message"], first["frames"]) if first is not None else ""
