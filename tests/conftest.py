"""What all tests share: a place where runs are made, and a plan in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from breakrank.run import Bench, Result, SavedRun, load_run
from breakrank.scenario import DEFAULT_ORACLES
from breakrank_agent.plan import Plan, Schedule, Strike

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bench of the whole test session: its warm process is shared."""
    with Bench(tmp_path_factory.mktemp("runs")) as made:
        yield made


def plan_of(program: str, *strikes: Strike, controlled: str = "", **values: Any) -> Plan:
    """Return a plan of two ranks and four steps; each strike's ranks are resolved."""
    ranks = values.get("ranks", 2)
    defaults: dict[str, Any] = {
        "scenario": "test",
        "case": program.replace(":", "-"),
        "program": program,
        "steps": 4,
        "deadline_s": 10.0,
        "control": "same" if strikes else "",
        "oracles": DEFAULT_ORACLES,
        "strikes": tuple(Strike(s.fault, s.trigger, s.trigger.select(ranks, 0)) for s in strikes),
        "schedule": Schedule("controlled", controlled) if controlled else Schedule(),
    }
    return Plan(**{**defaults, **values})


Run = Callable[..., tuple[Result, SavedRun]]


@pytest.fixture
def run(bench: Bench) -> Run:
    """Run a program of tests/programs and return the result with what was saved."""

    def go(program: str, *strikes: Strike, **values: Any) -> tuple[Result, SavedRun]:
        on = values.pop("on", bench)
        result = on.run(plan_of(program, *strikes, **values), programs=PROGRAMS)
        return result, load_run(result.folder)

    return go
