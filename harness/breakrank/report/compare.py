"""Compare two images case by case, and list the cases that got better or worse; the standing of each is saved."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder
from breakrank.files.private import make_part, open_private
from breakrank.runners import docker
from breakrank.verdict import Outcome, Verdict

#: From the best outcome to the worst. Any other outcome says nothing.
_ORDER = ("SURVIVED", "DETECTED", "CRASHED", "HUNG", "SILENT")
#: Less than this share of the cases tested, and a comparison says too little.
_ENOUGH = 0.5
#: Of the file that a standing is kept in. Before version 2 a case was not known by the means that it is struck by.
_VERSION = 2


@dataclass(frozen=True)
class Stood:
    """The result of one case: its outcome (empty: skipped, with the reason as the sentence), and its first finding."""

    outcome: str
    finding: str = ""
    sentence: str = ""
    #: The framework of the case, if the image does not have it.
    lacks: str = ""

    def __post_init__(self) -> None:
        # A report is noticed sooner or later, as the timing has it: two images are compared by what oracles found.
        if self.finding.startswith("report: "):
            object.__setattr__(self, "finding", "")

    @property
    def tested(self) -> bool:
        """True if the outcome says anything about the case."""
        return self.outcome in _ORDER

    def words(self) -> str:
        """Return the outcome and what was found."""
        return f"{self.outcome} ({self.finding})" if self.finding else self.outcome or "not tested"


def key(scenario: str, case: str, mechanism: str) -> str:
    """Return what a record is known by: the case, with its dimensions, and by which means it is struck and run."""
    return f"{scenario}::{case} [{mechanism}]"


def finding(verdict: Verdict) -> str:
    """Return the first finding of a verdict, as far as a record names it, or what was reported; else empty."""
    for first in verdict.findings:
        return f"{first.oracle}: {first.cause}, rank {', '.join(map(str, first.ranks))}, step {first.step}"
    return verdict.heard if verdict.outcome is Outcome.DETECTED else ""


def also(verdict: Verdict) -> str:
    """Return what oracles found that the scenario does not name: each oracle and cause; empty if there is nothing."""
    return ", ".join(dict.fromkeys(f"{finding.oracle}: {finding.cause}" for finding in verdict.also))


@dataclass
class Standing:
    """The results of the catalogue on one image, by `key`."""

    image: str
    identity: str
    versions: Mapping[str, str]
    cases: dict[str, Stood] = field(default_factory=dict)

    def save(self, runs: Path) -> None:
        """Write the standing into the folder of the runs. Other results of the very same image stay."""
        path = _path(runs, self.image)
        make_part(path.parent)
        kept: dict[str, Stood] = {}
        with contextlib.suppress(BreakrankError):
            before = load_standing(runs, self.image)
            kept = before.cases if before.identity == self.identity else {}
        whole = replace(self, cases={**kept, **self.cases})
        with open(path, "w", opener=open_private) as file:
            file.write(json.dumps({"version": _VERSION, **asdict(whole)}, indent=1, sort_keys=True) + "\n")


def new_standing(image: str) -> Standing:
    """Return the empty standing of an image. Raises `BreakrankError`."""
    images = docker.part("image")
    return Standing(image, str(images.find_image(image).id), dict(images.versions(image)))


def load_standing(runs: Path, image: str) -> Standing:
    """Return the last standing of an image. Raises `BreakrankError` if there is none."""
    path = _path(runs, image)
    raw = Folder(path.parent).read_json(path.name)
    try:
        if raw is None or raw["version"] != _VERSION:
            raise FileNotFoundError
        cases = {name: Stood(**stood) for name, stood in raw["cases"].items()}
        return Standing(raw["image"], raw["identity"], raw["versions"], cases)
    except FileNotFoundError:
        raise BreakrankError(
            f"there is no run on {image} to compare with in {runs}; run the same scenarios with "
            f"--scenario-image={image} first"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BreakrankError(f"{path} is damaged: {error}") from None


def _path(runs: Path, image: str) -> Path:
    # Two names that look alike as files are still two.
    short = re.sub(r"[^\w.-]", "-", image)[:60]
    return runs / "standings" / f"{short}-{hashlib.sha256(image.encode()).hexdigest()[:8]}.json"


@dataclass(frozen=True)
class Comparison:
    """Two standings beside each other, in all the cases that one of them has.

    Cases of a framework that neither image has are left out: such images are for something else.
    """

    old: Standing
    new: Standing

    def _all(self) -> Iterator[tuple[str, Stood, Stood]]:
        nothing = Stood("")
        for name in sorted(self.old.cases.keys() | self.new.cases.keys()):
            yield name, self.old.cases.get(name, nothing), self.new.cases.get(name, nothing)

    def _both(self) -> Iterator[tuple[str, Stood, Stood]]:
        return ((name, old, new) for name, old, new in self._all() if not (old.lacks and new.lacks))

    def _left_out(self) -> Counter[str]:
        """Return how many cases there are of each framework that neither image has."""
        return Counter(new.lacks for _, old, new in self._all() if old.lacks and new.lacks)

    def _untested(self) -> dict[str, list[str]]:
        """Return the cases that were tested on neither, by the reason."""
        found: dict[str, list[str]] = {}
        for name, old, new in self._both():
            if not old.tested and not new.tested:
                found.setdefault(new.sentence or old.sentence or "it was not run", []).append(name)
        return found

    def changes(self) -> dict[str, list[str]]:
        """Return the lines of what got worse, better, otherwise, is new and is gone."""
        found: dict[str, list[str]] = {"worse": [], "better": [], "changed": [], "new": [], "gone": []}
        for name, old, new in self._both():
            if old.tested and new.tested:
                step = _ORDER.index(new.outcome) - _ORDER.index(old.outcome)
                kind = "worse" if step > 0 else "better" if step < 0 else "changed"
                if step or old.finding != new.finding:
                    found[kind].append(f"{name}: {old.words()} became {new.words()}: {new.sentence}")
            elif old.tested:
                found["gone"].append(f"{name}: {old.words()}, not tested now: {new.sentence or 'it was not run'}")
            elif new.tested:
                found["new"].append(f"{name}: {new.words()}")
        return found

    @property
    def tested(self) -> int:
        """The number of cases that were tested on both."""
        return sum(old.tested and new.tested for _, old, new in self._both())

    @property
    def status(self) -> int:
        """The exit code: 1 if a case got worse, 2 if too many cases were not tested, else 0."""
        changes = self.changes()
        if changes["worse"]:
            return 1
        cases = len(list(self._both()))
        return 2 if changes["gone"] or not cases or self.tested < _ENOUGH * cases else 0

    def _versions(self) -> Iterator[str]:
        """Return what differs in the images, first what is in both."""
        old, new = self.old.versions, self.new.versions
        differing = [
            f"{name} {old[name]} -> {new[name]}" for name in sorted(old) if new.get(name, old[name]) != old[name]
        ]
        yield "versions: " + (", ".join(differing) if differing else "the same")
        for image, its, others in ((self.old.image, old, new), (self.new.image, new, old)):
            alone = [f"{name} {its[name]}" for name in sorted(its) if name not in others]
            if alone:
                yield f"only in {image}: {', '.join(alone)}"

    def lines(self) -> Iterable[str]:
        """Return the comparison as text, what it comes to last."""
        changes, cases = self.changes(), len(list(self._both()))
        yield f"{self.new.image} against {self.old.image}: {self.tested} of {cases} cases tested on both"
        for framework, left_out in self._left_out().items():
            yield f"left out: {left_out} cases of {framework}, which neither image has"
        for kind, lines in changes.items():
            yield f"{kind}: {len(lines)}"
            yield from (f"  {line}" for line in lines)
        untested = self._untested()
        if untested:
            yield f"not tested on either: {sum(map(len, untested.values()))}"
            yield from (f"  {', '.join(names)}: {reason}" for reason, names in untested.items())
        yield from self._versions()
        yield (
            "nothing got worse",
            f"{len(changes['worse'])} of {cases} cases got worse",
            "too much was not tested to say that nothing got worse",
        )[self.status]
