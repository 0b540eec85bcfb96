"""A plan is a scenario with all chance resolved: both sides read it, and a replay repeats it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from breakrank_agent.faults import fault_from_json
from breakrank_agent.protocol.annotated import Unfit, check_fields, shown
from breakrank_agent.protocol.evidence import EVIDENCE
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.frameworks import DEFAULT, all_frameworks
from breakrank_agent.protocol.sampling import DIGESTS
from breakrank_agent.protocol.trigger import PlanError, Trigger

#: Grows when a plan, or what is recorded under one, is written in another way. Runs of another version are not read.
VERSION = 4

#: The range of each number of a saved plan; of a trigger's and a schedule's, too.
_RANGES: Mapping[str, tuple[float, float]] = {
    "ranks": (0, 4096),
    "merged": (1, 4096),
    "steps": (0, 10**9),
    "restarts": (0, 1000),
    "deadline_s": (1e-6, 10**9),
    "patience_s": (0, 10**9),
    "tolerance": (0, 10**9),
    "until": (0, 10**9 + 10**9),
    "step": (0, 10**9),
    "visit": (1, 10**12),
    "attempt": (0, 1000),
    "depth": (1, 10**6),
    "length": (1, 10**9),
}
#: The values of a saved plan's text, where that is a closed list.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "framework": (*all_frameworks(), "none"),
    "mode": ("free", "controlled"),
    "digests": DIGESTS,
}
_FUNCTION = r"[^\W\d][\w.]*:[^\W\d][\w.]*"
#: The pattern of a saved plan's text, and that in words. A scenario and a case are part of a folder's name.
_FORMS: Mapping[str, tuple[str, str]] = {
    "scenario": (r"(?!\.)[^/\x00-\x1f\x7f-\x9f]{1,200}", "a name without a slash, of at most 200 letters"),
    "case": (r"[^/\x00-\x1f\x7f-\x9f]{1,200}", "a name without a slash, of at most 200 letters"),
    "program": (rf"({_FUNCTION})?", "module:function, or empty"),
    "control": (rf"(same|{_FUNCTION})?", "same, module:function, or empty"),
    "step": (rf"({_FUNCTION})?", "module:function, or empty"),
    "runner": (r"\w{1,100}", "the name of a runner"),
    "image": (r"[^\s\x00-\x1f\x7f-\x9f]{0,500}", "the name of an image, or empty"),
    "data": (r"\w{0,100}", "the name of a data set, or empty"),
    "policy": (r"\w{0,100}", "the name of a schedule, or empty"),
}


@dataclass(frozen=True)
class Schedule:
    """The order of moves: `free` is full speed; `controlled` lets one rank or thread at a time move, as `policy` says.

    `split` makes an operator that reads and writes the same storage two moves, with whatever others do in between.
    `depth` and `length` are for the policy `pct` alone. `choices` are the ranks chosen, turn by turn, and `threads` for
    each rank the numbers of its threads, pick by pick; only the policy `replay` has them.
    """

    mode: str = "free"
    policy: str = ""
    split: bool = False
    depth: int = 3
    length: int = 100
    choices: tuple[int, ...] = ()
    threads: tuple[tuple[int, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**dataclasses.asdict(self), "choices": list(self.choices), "threads": [list(t) for t in self.threads]}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Schedule:
        """Read a schedule. Raises `PlanError` for an unknown field."""
        known = _read(cls, raw, "schedule")
        if known["mode"] == "controlled" and not known["policy"]:
            raise PlanError("the schedule is controlled, and names no policy")
        if any(number < 0 for numbers in (known["choices"], *known["threads"]) for number in numbers):
            raise PlanError("the schedule names a rank or thread below 0")
        return cls(**known)

    def of_threads(self, rank: int) -> Schedule:
        """Return the schedule by which one rank chooses among its threads."""
        return dataclasses.replace(self, choices=self.threads[rank] if rank < len(self.threads) else (), threads=())


@dataclass(frozen=True)
class Plan:
    """Everything that one run depends on; equal plans on equal software give equal digests.

    `program` is `module:function`, looked up among the programs staged for the run; or it is empty, and `command` is
    the user's script and its arguments; later attempts run `resume`, if it is not empty. `reference` is the user's
    command for the same training as one rank, on the same global batches. `steps` is 0 if only the control can tell,
    `ranks` if a launcher starts them. Ranks end after the step `until`, if it is not 0; `step` is the function
    (`module:function`) whose return ends a step, unless the agent finds it out. An `elastic` job goes on with fewer
    ranks: one that a signal has ended is not started again, until a fault brings its host back. `merged` is the number
    of ranks whose work each rank does, in a reference alone. `control` is empty (none), `same` (this plan without its
    strikes) or another `module:function`. `data` names the files that are laid into the working folder before the ranks
    start. `image` is the image of the containers of the runner `docker`. `digests` says at the end of which steps the
    parameters are digested, and which batches are: `every`, `sparse` (the first ones, then ever fewer) or `none`, which
    costs less if they are large; with sparse ones each step from the first to the second number of `closely` is
    digested. The parameters at the end always are. `apart` are patterns for the names of parameters that ranks mean to
    have each for itself. `oracles` are those that the scenario names, which decide whether a case is as recorded; every
    oracle judges what is on record. `evidence` is recorded beyond points, payloads and ends. Seconds appear only as
    limits: nothing fires on them.
    """

    scenario: str
    case: str
    program: str
    seed: int = 0
    framework: str = DEFAULT
    ranks: int = 2
    merged: int = 1
    steps: int = 5
    restarts: int = 0
    elastic: bool = False
    deadline_s: float = 30.0
    patience_s: float = 0.0
    tolerance: float = 0.0
    pin: bool = True
    digests: str = "every"
    closely: tuple[int, ...] = ()
    apart: tuple[str, ...] = ()
    runner: str = "process"
    image: str = ""
    control: str = ""
    data: str = ""
    oracles: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    schedule: Schedule = field(default_factory=Schedule)
    strikes: tuple[Strike, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    until: int = 0
    step: str = ""
    version: int = VERSION

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        raw = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        raw["oracles"] = list(self.oracles)
        raw["evidence"] = list(self.evidence)
        raw["closely"] = list(self.closely)
        raw["apart"] = list(self.apart)
        raw["command"] = list(self.command)
        raw["resume"] = list(self.resume)
        raw["reference"] = list(self.reference)
        raw["environment"] = dict(self.environment)
        raw["schedule"] = self.schedule.to_json()
        raw["strikes"] = [s.to_json() for s in self.strikes]
        return raw

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Plan:
        """Read a plan. Raises `PlanError` for another version, an unknown field or a missing one."""
        version = raw.get("version") if isinstance(raw, Mapping) else None
        if type(version) is not int:
            raise PlanError("this is no plan: it has no version")
        if version > VERSION:
            raise PlanError(f"the plan has version {shown(version)}, this Breakrank reads {VERSION}; upgrade it")
        if version < VERSION:
            raise PlanError(f"the plan has version {shown(version)}, this Breakrank reads {VERSION}; run it again")
        values = _read(cls, raw, "plan")
        _check_whole(values)
        values["schedule"] = Schedule.from_json(values["schedule"])
        values["strikes"] = tuple(map(strike_from_json, values["strikes"]))
        return cls(**values)

    def dumps(self) -> str:
        """Return the plan as the text of `plan.json`."""
        return json.dumps(self.to_json(), indent=1, sort_keys=True) + "\n"

    @classmethod
    def loads(cls, text: str, where: str = "plan") -> Plan:
        """Read the text of a `plan.json`. Raises `PlanError`, naming `where`."""
        try:
            return cls.from_json(json.loads(text))
        except RecursionError:
            raise PlanError(f"{where}: it is nested too deeply") from None
        except (ValueError, TypeError, KeyError) as error:
            raise PlanError(f"{where}: {error}") from None

    @property
    def mechanism(self) -> str:
        """The faults and the runner of the plan, for which a record is known."""
        return ", ".join([*sorted({strike.fault.name() for strike in self.strikes}), self.runner])

    def command_of(self, attempt: int) -> tuple[str, ...]:
        """Return the user's command in an attempt."""
        return self.resume if attempt and self.resume else self.command

    def key(self) -> str:
        """Return a short digest of all that the plan says."""
        return hashlib.sha256(self.dumps().encode()).hexdigest()[:16]


def strike_from_json(raw: Mapping[str, Any]) -> Strike:
    """Read a strike. Raises `PlanError` for a fault or field that is not known."""
    known = _read(Strike, raw, "strike")
    outside = [rank for rank in known["ranks"] if not 0 <= rank < _RANGES["ranks"][1]]
    if outside:
        raise PlanError(f"the strike names rank {outside[0]}; ranks count from 0")
    trigger = Trigger(**_read(Trigger, known["trigger"], "trigger"))
    return Strike(fault_from_json(known["fault"]), trigger, known["ranks"])


def _read(kind: Any, raw: Any, what: str) -> dict[str, Any]:
    """Return the values of an object that is to become a `kind`, each checked. Raises `PlanError`, naming the field."""
    known = _checked(raw, [f.name for f in dataclasses.fields(kind)], what)
    try:
        values = check_fields(kind, known, f"the {what}")
    except Unfit as error:
        raise PlanError(str(error)) from None
    for name, value in values.items():
        wanted = _wanted(name, value)
        if wanted:
            raise PlanError(f"the {what}: {name} is {shown(value)}; use {wanted}")
    return values


def _wanted(name: str, value: Any) -> str:
    """Return what a field takes instead of this value; empty if it is fine. Of the name `step` there are two fields."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and name in _RANGES:
        least, most = _RANGES[name]
        return "" if least <= value <= most else f"{least:.12g} to {most:.12g}"
    if isinstance(value, str) and name in _WORDS:
        return "" if value in _WORDS[name] else f"one of {', '.join(_WORDS[name])}"
    if isinstance(value, str) and name in _FORMS:
        form, words = _FORMS[name]
        return "" if re.fullmatch(form, value) else words
    return ""


def _check_whole(values: Mapping[str, Any]) -> None:
    """Raise `PlanError` for what no field shows alone, or is no single value."""
    if not values["ranks"] and values["runner"] != "join":
        raise PlanError(f"the plan: ranks is 0; use 1 to {_RANGES['ranks'][1]:g}")
    if not isinstance(values["strikes"], (list, tuple)):
        raise PlanError(f"the plan: strikes is {shown(values['strikes'])}, not a list")
    if not (values["program"] or values["command"]):
        raise PlanError("the plan names neither a program nor a command")
    for name in values["environment"]:
        if not name or "=" in name:
            raise PlanError(f"the plan: environment names the variable {shown(name)}; a name is not empty, without '='")
    for oracle in values["oracles"]:
        if not re.fullmatch(r"\w{1,100}", oracle):
            raise PlanError(f"the plan: oracles has {shown(oracle)}, which is no name of an oracle")
    if len(values["closely"]) not in (0, 2) or any(step < 0 for step in values["closely"]):
        raise PlanError(f"the plan: closely is {shown(values['closely'])}; use the first and the last step, or nothing")
    for kind in values["evidence"]:
        if kind not in EVIDENCE:
            raise PlanError(f"the plan: evidence has {shown(kind)}; use {', '.join(EVIDENCE)}")


def _checked(raw: Any, names: Any, what: str) -> Mapping[str, Any]:
    """Return `raw` if it is a mapping of exactly `names`, else raise `PlanError` with the field that is wrong."""
    if not isinstance(raw, Mapping):
        raise PlanError(f"the {what} is {type(raw).__name__}, not an object")
    unknown = sorted(set(raw) - set(names))
    missing: Optional[str] = next((n for n in names if n not in raw), None)
    if unknown:
        raise PlanError(f"the {what} has an unknown field {unknown[0]!r}; fields are {', '.join(sorted(names))}")
    if missing is not None:
        raise PlanError(f"the {what} has no field {missing!r}")
    return raw
