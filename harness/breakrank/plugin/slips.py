"""Names in the scenarios that were chosen: each is one that there is, or the line that says it is at fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from breakrank.errors import BreakrankError
from breakrank.oracles import all_oracles
from breakrank.plan.catalogue import programs_beside
from breakrank.plan.scenario import Case, Scenario
from breakrank.plan.slips import line_of, unknown, wrong_with_program
from breakrank.runners import offered_runners
from breakrank.verdict import Record


def check_names(chosen: Sequence[tuple[Scenario, Case]], programs: bool) -> None:
    """Raise `BreakrankError`, with file and line, for an oracle, a runner, or of `programs` one, that is not there."""
    for scenario in {id(scenario): scenario for scenario, _ in chosen}.values():
        for name in scenario.oracles:
            if name not in all_oracles():
                raise _slip(scenario, name, "", unknown("oracle", name, all_oracles()))
    for scenario, case in chosen:
        for word, wrong in _wrong(scenario, case, programs):
            raise _slip(scenario, word, case.name, f"the case {case.name!r}: {wrong}")


def _wrong(scenario: Scenario, case: Case, programs: bool) -> Iterator[tuple[str, str]]:
    """Yield each word of a case that is wrong, with the reason."""
    for runner in case.on:
        if runner not in offered_runners():
            yield runner, f"it has a record under a runner {runner!r}; runners are {', '.join(offered_runners())}"
    for record in _records(case):
        if record.oracle is not None and record.oracle not in all_oracles():
            yield record.oracle, unknown("oracle", record.oracle, all_oracles())
    folder = programs_beside(scenario.path)
    for program in filter(None, (case.program, case.control) if programs else ()):
        wrong = wrong_with_program(program, folder)
        if wrong:
            yield program, wrong


def _records(case: Case) -> Iterable[Record]:
    return (case.expect, *case.on.values(), *case.at.values())


def _slip(scenario: Scenario, word: str, case: str, why: str) -> BreakrankError:
    return BreakrankError(f"{scenario.path}, line {line_of(scenario.path, word, case)}: {why}")
