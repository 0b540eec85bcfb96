"""The header: one line about what runs, and with -v all that it is run with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from breakrank.plugin.collect import Subject
from breakrank.plugin.command_line import PREFIX
from breakrank.plugin.options import Options
from breakrank.report.listing import counted
from breakrank.runners import PLAIN
from breakrank.runners.workdir import unprotected
from breakrank_agent.plan import Plan


def about_script(subjects: Sequence[Subject], options: Options) -> Iterator[str]:
    """Yield how often a script of the user's own runs, and what of its folder is not protected."""
    struck = "twice undisturbed, once struck; once where nothing is struck"
    undisturbed = all(subject.scenario.checkup for subject in subjects)
    often = "three times undisturbed" if undisturbed else f"three times a case: {struck}"
    yield f"breakrank: {' '.join(options.train)} runs {often}, {_how_long(options)}"
    # In an image a script works on a copy of its folder.
    if not options.in_place and not options.image:
        yield from (f"breakrank: {lack}" for lack in unprotected(options.folder))


def _how_long(options: Options) -> str:
    """Say when a script's ranks end."""
    if options.steps is None:
        return f"each time to its end ({PREFIX}-steps=N ends it N steps after the last strike)"
    return f"each time until {counted(options.steps, 'step')} after the last strike"


def settings(subjects: Sequence[Subject], options: Options) -> Iterator[str]:
    """Yield the seed, the runners, where runs are kept, and of the scenarios the ranks, steps and deadlines."""
    yield f"breakrank: seed {options.seed}, runner {' and '.join(_runners(subjects)) or options.runner}"
    yield f"breakrank: runs in {options.runs}"
    jobs: dict[str, dict[str, None]] = {}
    for subject in subjects:
        if subject.plan is not None:
            jobs.setdefault(_job(subject.plan), {})[subject.scenario.name] = None
    yield from (f"breakrank: {job}: {', '.join(scenarios)}" for job, scenarios in jobs.items())


def _job(plan: Plan) -> str:
    most = plan.steps or plan.until
    steps = f"{counted(most, 'step')}, " if most else ""
    ranks = counted(plan.ranks, "rank") if plan.ranks else "as many ranks as it starts"
    return f"{ranks}, {steps}deadline {plan.deadline_s:g} s"


def _runners(subjects: Sequence[Subject]) -> list[str]:
    return sorted({subject.plan.runner for subject in subjects if subject.plan is not None})


def counts(subjects: Sequence[Subject], selected: Collection[str], options: Options) -> str:
    """Say how many cases of how many scenarios run, with how many ranks: `21 cases of 3 scenarios (385 deselected)`.

    A seed, a runner and an image are named where they are not the usual ones.
    """
    left = [subject for subject in subjects if subject.nodeid in selected]
    cases = counted(len(left), "case")
    scenarios = counted(len({subject.scenario.name for subject in left}), "scenario")
    gone = len(subjects) - len(left)
    ranks = sorted({subject.plan.ranks for subject in left if subject.plan is not None and subject.plan.ranks})
    more = [f"{ranks[0]}–{ranks[-1]} ranks" if len(ranks) > 1 else counted(ranks[0], "rank")] if ranks else []
    more += [f"seed {options.seed}"] if options.seed else []
    runners = _runners(left)
    more += [f"runner {' and '.join(runners)}"] if runners not in ([], [PLAIN]) else []
    more += [f"image {options.image}"] if options.image else []
    said = [f"{cases} of {scenarios}{f' ({gone} deselected)' if gone else ''}", *more]
    return f"breakrank: {', '.join(said)}"
