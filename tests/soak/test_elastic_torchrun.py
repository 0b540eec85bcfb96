"""A world of torchrun's own shrinks and grows (`--nnodes=1:2`), with what the scenario `regrown_world` has on record.

Goal: what the built-in launcher shows of an elastic world, torchrun shows as well.
Method: two nodes of torchrun meet at a store of c10d. One is ended, and the world goes on as one rank; another joins.
The programs are those of the scenario, and their results are compared with those of a world that stays as it is.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from breakrank.fixtures.data import lay
from breakrank.history.reader import History
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import Job, Scenario
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "tests" / "scripts" / "elastic"
PROGRAMS = [
    ROOT / "fixtures" / "programs" / f"{name}.py" for name in ("regrown", "fewer_ranks", "sharded", "digits_ddp")
]

Launch = Callable[..., History]


@pytest.fixture(scope="module")
def launch(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """Run a function of `regrown` under two nodes of torchrun, and return what is on record of it."""
    folder = tmp_path_factory.mktemp("elastic")
    for path in [*SCRIPTS.iterdir(), *PROGRAMS]:
        if path.suffix == ".py":
            shutil.copy(path, folder)
    lay("digits", folder, 0, 2)

    def go(*words: str) -> History:
        command = [sys.executable, "two_nodes.py", "elastic.py", *words]
        scenario = Scenario((), Job(steps=0, data="", deadline_s=120.0), name="elastic")
        (plan,) = make_script_plans(scenario, command, Choices()).values()
        return load_run(bench.run(Request(plan, where=folder)).folder).history

    return go


@pytest.fixture(scope="module")
def steady(launch: Launch) -> History:
    """Return what is on record of the sound program in a world that stays as it is."""
    return launch("following", "steady")


def results(history: History) -> list[dict[str, float]]:
    """Return the results of the ranks at the end, which must have ended well."""
    assert all(lived.ended_well for lived in history.last) and len(history.last) == 2
    return [lived.end["state"] for lived in history.last if lived.end is not None]


def samples(history: History) -> Counter[int]:
    """Return how often each sample was trained on, in the steps that the result contains."""
    kept = {0: 3, 1: 3, 2: 3} if len(history.attempts) == 3 else {0: 9}
    return Counter(
        index
        for (attempt, _), lived in history.ranks.items()
        for event in lived.payloads("load")[: kept[attempt]]
        for index in event["indices"]
    )


def same(one: History, other: History) -> bool:
    """Return whether two worlds came to the same, up to how sums over ranks are rounded."""
    pairs = zip(results(one), results(other), strict=True)
    return all(here == pytest.approx(there, rel=1e-4) for here, there in pairs)


def test_a_sound_program_comes_to_the_same(launch: Launch, steady: History) -> None:
    history = launch("following")
    assert [history.world(attempt) for attempt in history.attempts] == [2, 1, 2]
    assert samples(history) == samples(steady) and set(samples(history).values()) == {1}
    assert same(history, steady)


@pytest.mark.parametrize(
    "function",
    ["rate_of_the_saved_world", "momentum_of_the_saved_world", "saved_by_rank_0"],
)
def test_what_was_made_for_another_world_comes_to_something_else(
    launch: Launch, steady: History, function: str
) -> None:
    history = launch(function)
    assert [history.world(attempt) for attempt in history.attempts] == [2, 1, 2]
    assert samples(history) == samples(steady) and not same(history, steady)


def test_a_share_of_the_first_world_leaves_samples_out(launch: Launch, steady: History) -> None:
    history = launch("share_of_the_first_world")
    assert samples(history) < samples(steady)


def test_a_share_of_the_saved_world_leaves_samples_out_and_trains_on_others_twice(
    launch: Launch, steady: History
) -> None:
    history = launch("share_of_the_saved_world")
    assert set(samples(history).values()) == {1, 2} and set(samples(history)) < set(samples(steady))
