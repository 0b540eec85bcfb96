"""Validates an image: the catalogue on the new one and on the last good one, and what got better or worse.

Each image is a session of the history, so that its results stay, and the page of the history shows both side by side.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from breakrank.doctor import missing_for, missing_framework
from breakrank.errors import BreakrankError
from breakrank.memory.entries import IMAGE, Entry
from breakrank.memory.reading import read
from breakrank.memory.recorder import Recorder
from breakrank.memory.store import NAME
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.catalogue import load_scenarios, programs_beside, select
from breakrank.plan.scenario import Case, Scenario
from breakrank.report.compare import Comparison, Standing, Stood, key, new_standing
from breakrank.report.remembered import begun, with_plan, with_result
from breakrank.runners import image_runner
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.timeline.site import write_report
from breakrank_agent.protocol.trigger import PlanError

#: The beginning of a case's sentence for an error that is neither the image's nor the user's.
_OWN = "an error of Breakrank's own"
#: The exit code that the history has of a session that was cut short, as a shell has it of Ctrl-C.
_CUT_SHORT = 130


@dataclass(frozen=True)
class Validation:
    """A validation of the new image against the old one by the scenarios `names`; `site` is the folder of its page."""

    new: str
    old: str
    names: Sequence[str]
    seed: int
    runs: Path
    site: Path

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of the command line, for the history."""
        scenarios = tuple(f"--scenario={name}" for name in self.names)
        return ("image", self.new, "--against", self.old, *scenarios, f"--seed={self.seed}")


def validate(asked: Validation) -> int:
    """Run the scenarios on both images and print what differs; return the comparison's status.

    An error of our own leaves a case untested on both, perhaps: it is never passed over, the status is then 2.
    Raises `BreakrankError` if there is no engine, or no such image: before anything runs.
    """
    cases = select(load_scenarios(), asked.names)
    standings = new_standing(asked.old), new_standing(asked.new)
    comparison = Comparison(*standings)
    for standing in standings:
        stand(standing, cases, asked)
    _draw(asked)
    print("\n" + "\n".join(comparison.lines()))
    ours = any(stood.sentence.startswith(_OWN) for one in standings for stood in one.cases.values())
    return comparison.status or (2 if ours else 0)


def _draw(asked: Validation) -> None:
    """Write the page of the history; without it, the comparison is still said."""
    try:
        print(f"breakrank: report: {write_report(read(asked.runs), asked.runs, asked.site)}")
    except BreakrankError as error:
        print(f"breakrank: no page was written: {error}")


def stand(standing: Standing, cases: Sequence[tuple[Scenario, Case]], asked: Validation) -> None:
    """Run cases on the image of a standing, one line each, and save what they came to. Raises `BreakrankError`."""
    choices = Choices(seed=asked.seed, runner=image_runner(), image=standing.image)
    lacks = {
        name: missing_framework(name, choices.runner, standing.image)
        for name in dict.fromkeys(case.framework for _, case in cases)
    }
    total = sum(not lacks[case.framework] for _, case in cases)
    print("; ".join([f"{standing.image}: {total} of {len(cases)} cases", *filter(None, lacks.values())]))
    with Bench(asked.runs) as bench, _remembered(standing, total, asked) as recorder:
        number = 0
        for scenario, case in cases:
            lack = lacks[case.framework]
            if not lack:
                number += 1
                # Said before it runs, so that one sees what takes long.
                print(f"{number:>4}/{total}  {scenario.name}::{case.name}  ", end="", flush=True)
            entry = _case(bench, scenario, case, choices, lack)
            stood = Stood(entry.outcome, entry.finding, entry.sentence, case.framework if lack else "")
            standing.cases[key(scenario.name, case.name, entry.mechanism)] = stood
            if not lack:
                recorder.add(entry)
                print(f"{stood.words()}  {entry.seconds:.0f} s", flush=True)


@contextlib.contextmanager
def _remembered(standing: Standing, total: int, asked: Validation) -> Iterator[Recorder]:
    """Give the writer of an image's session. An interrupt at the hundredth case leaves the results of ninety-nine."""
    session = begun(Path.cwd(), asked.argv, standing.image, IMAGE, total)
    recorder, status = Recorder(asked.runs / NAME, session), _CUT_SHORT
    recorder.begin()
    try:
        yield recorder
        status = 0
    finally:
        recorder.end(status)
        standing.save(asked.runs)
        if recorder.lack:
            print(f"breakrank: the history does not have all of this session: {recorder.lack}")


def _case(bench: Bench, scenario: Scenario, case: Case, choices: Choices, lack: str) -> Entry:
    """Return what a case came to, and by which means it is struck; `lack` is why the image cannot run it."""
    began = time.monotonic()
    entry = Entry(scenario.name, case.name, family=scenario.family, mechanism=choices.runner, seed=choices.seed)
    try:
        plan = make_plan(scenario, case, choices)
        entry = replace(entry, mechanism=plan.mechanism)
        reason = lack or missing_for(plan, case.needs)
        if reason:
            return replace(entry, sentence=reason)
        programs = programs_beside(scenario.path)
        entry = with_plan(entry, plan, programs)
        entry = with_result(entry, bench.run(Request(plan, case.record(plan.runner, plan.ranks), programs)))
        return replace(entry, seconds=time.monotonic() - began)
    except (BreakrankError, PlanError) as error:
        return replace(entry, sentence=" ".join(str(error).split()))
    except Exception as error:
        # The catalogue runs for long, perhaps at night: what goes wrong with one case, if only our own, ends no other.
        return replace(entry, sentence=f"{_OWN}: {type(error).__name__}: {error}")
