"""The parts that conformance tests try, by name, with the ids of the tests of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from breakrank.oracles import all_oracles
from breakrank.runners import offered_runners
from breakrank.witnesses import all_witnesses
from breakrank_agent.faults import all_faults
from breakrank_agent.hooks import all_hooks
from support.catalogued import CASES, COVERING, SCENARIOS, names

#: Every hook, as its framework and its surface.
HOOKS = sorted("/".join(hook.__name__.split(".")[-2:]) for hook in all_hooks())

#: The ids of tests, by the name of the file that they are in.
Ids = Mapping[str, set[str]]


def all_parts() -> Mapping[str, Ids]:
    """Return every part: a name may be that of several, as of an oracle and a program."""
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for part, file, ids in [*_of_strikes(), *_of_runs(), *_of_scenarios()]:
        found[part][file].update(ids)
    return found


def _of_strikes() -> Iterator[tuple[str, str, set[str]]]:
    """Yield faults, and witnesses, each with the first fault that names it."""
    for fault in reversed(all_faults().values()):
        yield fault.name(), "test_faults.py", {fault.name()}
    for witness in all_witnesses():
        seen = [fault.name() for fault in all_faults().values() if fault.witness == witness]
        yield witness, "test_witnesses.py", {witness}
        yield witness, "test_faults.py", set(seen[:1])


def _of_runs() -> Iterator[tuple[str, str, set[str]]]:
    """Yield oracles, runners and hooks."""
    for oracle in all_oracles():
        yield oracle, "test_every_oracle.py", {oracle}
    for runner in offered_runners():
        yield runner, "test_runners.py", {runner}
    for hook in HOOKS:
        yield hook, "test_hooks.py", {hook}


def _of_scenarios() -> Iterator[tuple[str, str, set[str]]]:
    """Yield scenarios, each with a broken case and a sound one, and programs, each with a case; of torch first."""
    tried = sorted(COVERING, key=lambda both: both[1].framework != "torch")
    for name in SCENARIOS:
        of = [both for both in tried if both[0].name == name]
        pair = [next(([one] for one in of if one[1].sound is sound), []) for sound in (False, True)]
        yield name, "test_scenarios.py", {name, *names([one for found in pair for one in found])}
    for program in {case.program for _, case in CASES}:
        yield program, "test_scenarios.py", set(names([both for both in tried if both[1].program == program])[:1])
