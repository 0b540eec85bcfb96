"""Every fault that is discovered: it travels as JSON, lands where it says, is silent elsewhere, and a no-op is VOID."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import containers, slurm

import breakrank_agent
from breakrank.doctor import missing
from breakrank.runs.bench import Bench
from breakrank.verdict import Outcome
from breakrank.witnesses import all_witnesses
from breakrank_agent.faults import all_faults, fault_from_json
from breakrank_agent.protocol.fault import Fault, Strike
from breakrank_agent.protocol.trigger import POINTS, PlanError, at

FAULTS = [pytest.param(kind, id=name) for name, kind in all_faults().items()]
#: Those that are struck; a cluster takes half a minute and more to end a job and to heal.
STRUCK = [
    pytest.param(kind, id=name, marks=pytest.mark.soak if kind.clustered else ()) for name, kind in all_faults().items()
]

#: Nothing but the deadline ends a rank that spins, or that waits for its disk.
DEADLINES_S = {"hang_disk": 4.0, "spin": 4.0}

#: The environment of faults that land only on a job that has asked for something.
ASKED = {"near_time_limit": {"SBATCH_TIMELIMIT": "60", "SBATCH_SIGNAL": "USR1@900"}}

#: The programs of faults that land only when a rank does a certain thing.
PROGRAMS = {
    "corrupt_optimizer_state": "small:with_momentum",
    "exceed_quota": "small:keeps_the_last",
    "fail_call": "small:keeps_notes",
    "hang_disk": "small:keeps_notes",
    "serve_stale": "small:keeps_the_last",
    "slow_disk": "small:keeps_notes",
    "page_out": "small:reads_what_is_mapped",
}

#: Appended to each file of faults in a copy of the agent: from then on no fault there does anything.
NO_OP = """
for _kind in [v for v in list(globals().values()) if isinstance(v, type) and issubclass(v, Fault)]:
    _kind.strike = _kind.strike_inside = lambda self, target: None
"""


@pytest.fixture(scope="module")
def bench_of_no_ops(tmp_path_factory):
    """Yield a bench whose ranks have an agent in which every fault is a no-op."""
    folder = tmp_path_factory.mktemp("no-ops")
    source = folder / "breakrank_agent"
    shutil.copytree(Path(breakrank_agent.__file__).parent, source, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (source / "faults").glob("[!_]*.py"):
        path.write_text(path.read_text() + NO_OP)
    with Bench(folder / "runs", agent_source=source) as made:
        yield made


@pytest.fixture
def ground(kind, bench):
    """Yield the bench that a fault is tried on; a fault of a cluster has one for itself."""
    if not kind.clustered:
        yield bench
        return
    if slurm.lacks():
        pytest.skip(slurm.lacks())
    with slurm.bench_on_cluster(alone=True) as made:
        yield made


def strike(kind) -> Strike:
    return kind() @ at(rank=1, step=2, point=point(kind))


def runner(kind) -> dict[str, Any]:
    """Return the runner under which a fault is tried, and its image or environment.

    Skips where this machine lacks what the fault needs.
    """
    lack = missing(kind.needs)
    if lack:
        pytest.skip(f"{kind.name()} {lack}")
    if kind.clustered:
        return {"runner": "slurm", "environment": ASKED.get(kind.name(), {})}
    if kind.contained:
        return {"runner": "docker", "image": containers.require(containers.TORCH)}
    return {"runner": "sandbox" if kind.walled else "process"}


def program(kind) -> str:
    """Return the program that a fault is tried on: one with a wrapper, if the fault strikes wrappers."""
    return PROGRAMS.get(kind.name(), "small:wrapped" if kind.on == "wrapper" else "small:train")


def point(kind) -> str:
    """Return the point at which a fault is tried: the end of a step, if the fault can strike there."""
    return (kind.points or ("step",))[0]


def _kinds_that_differ() -> list[type[Fault]]:
    """Return the first fault of each way to wait for a point: the side, the walls, what a hook hands over, the point.

    While its point does not come a fault does nothing, so those that wait in the same way are tried by one of them.
    """
    first: dict[tuple[object, ...], type[Fault]] = {}
    for kind in all_faults().values():
        first.setdefault((kind.side, kind.walled, kind.on, point(kind)), kind)
    return list(first.values())


DIFFERENT = _kinds_that_differ()
WAITING = [
    pytest.param(kind, id=name, marks=() if kind in DIFFERENT and not kind.clustered else pytest.mark.soak)
    for name, kind in all_faults().items()
]


@pytest.mark.parametrize("kind", FAULTS)
def test_it_says_what_it_is(kind):
    assert kind.__doc__ and kind.__doc__.splitlines()[0].endswith(".")
    assert kind.certifies and kind.side in ("inside", "outside")
    assert kind.witness in all_witnesses()
    assert dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen


@pytest.mark.parametrize("kind", FAULTS)
def test_it_travels_as_json(kind):
    assert fault_from_json(kind().to_json()) == kind()


@pytest.mark.parametrize("kind", FAULTS)
def test_it_is_refused_at_a_point_that_it_cannot_strike_at(kind):
    for other in set(POINTS) - set(kind.points) if kind.points else ():
        with pytest.raises(PlanError, match=f"strikes at the point .*, not at {other}$"):
            kind() @ at(rank=1, step=2, point=other)


@pytest.mark.parametrize("kind", STRUCK)
def test_it_lands_on_its_rank_at_its_point_and_nowhere_else(run, ground, kind):
    where, deadline_s = runner(kind), DEADLINES_S.get(kind.name(), 60.0)
    result, saved = run(program(kind), strike(kind), on=ground, deadline_s=deadline_s, data="digits", **where)
    assert result.verdict.outcome is not Outcome.VOID, result.verdict
    landed = [(e["attempt"], e["rank"]) for e in saved.history.seen("strike") if e["phase"] == "landed"]
    assert landed == [(0, 1)]
    # The first attempt: a cluster starts a job again by itself.
    fired = [e for lived in saved.history.attempt(0) for e in lived.of_kind("strike") if e["phase"] == "fired"]
    assert [(e["step"], e["point"], e["visit"]) for e in fired] == [(2, point(kind), 1)]
    # Nothing is left of it: a run in the same place is sound.
    assert not [e for e in saved.history.seen("strike") if e["phase"] == "unhealed"]
    assert run("small:train", on=ground, **where)[0].verdict.outcome is Outcome.SURVIVED


@pytest.mark.parametrize("kind", WAITING)
def test_it_is_void_where_its_point_never_comes(run, ground, kind):
    never = kind() @ at(rank=1, step=99, point=point(kind))
    result, saved = run(program(kind), never, on=ground, **runner(kind))
    assert result.verdict.outcome is Outcome.VOID
    assert "never fired" in result.verdict.sentence()
    assert [lived.status for lived in saved.history.last] == [0, 0]


@pytest.mark.parametrize("kind", STRUCK)
def test_replaced_by_a_no_op_it_is_void(run, monkeypatch, bench_of_no_ops, ground, kind):
    if kind.side == "outside":
        monkeypatch.setattr(kind, "strike", lambda self, target: None)
    on = ground if kind.clustered else bench_of_no_ops
    result, saved = run(program(kind), strike(kind), on=on, data="digits", **runner(kind))
    assert result.verdict.outcome is Outcome.VOID
    assert "did not land" in result.verdict.sentence()
    assert [lived.status for lived in saved.history.last] == [0, 0]
