"""Histories of which only some steps were digested or had a census: what is found, and between which steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import asking
from support.golden import Golden

from breakrank.judge.run_digest import explain_difference
from breakrank.oracles import Abstain
from breakrank.verdict import Finding
from breakrank_agent.protocol.sampling import is_digested

#: The parameters of a rank after a step.
Params = Callable[[int, int], str]
#: More of the record of a rank's step.
More = Callable[[int, int], dict[str, Any]]


def moving(rank: int, step: int) -> str:
    return f"p{step}"


def nothing(rank: int, step: int) -> dict[str, Any]:
    return {}


def trained(
    steps: int, params: Params = moving, told: More = nothing, indexed: bool = True, closely: tuple[int, ...] = ()
) -> Golden:
    """Return a job of two ranks; `told` is a record of reductions, of ranks and steps that have one."""
    job = Golden(2)
    for step in range(1, steps + 1):
        digested = is_digested(step, "sparse", closely)
        for one in job.ranks:
            batch = {"samples": None if indexed else ["s"], "batch": f"b{one.rank}-{step}"} if digested else {}
            indices = [2 * step + one.rank] if indexed else None
            one.enters("load").writes("payload", of="load", indices=indices, **batch).enters("forward")
            said = told(one.rank, step)
            if said:
                one.writes("unsynced", **said)
            one.enters("optimize").enters("step").done = step
            one.params = params(one.rank, step)
            if digested:
                one.holds(one.params, parts=[one.params])
    for one in job.ranks:
        one.writes("names", names=["weight"], eps=1e-7)
    return job.ends_well()


def ask(oracle: str, job: Golden, control: Golden | None = None) -> list[Finding]:
    there = control.history() if control is not None else None
    return asking.ask(oracle, job.history(), there, steps=30)


def parts_at(step: int) -> Params:
    return lambda rank, at: f"p{at}" if at < step else f"p{at}-{rank}"


def test_replicas_part_between_two_steps_that_were_digested() -> None:
    (found,) = ask("replicas", trained(30, parts_at(27)))
    assert (found.step, found.evidence["since"]) == (28, 25)
    between = "part from each other between step 25 and step 28, in weight first"
    assert found.sentence() == f"the parameters of ranks 0 and 1 {between}"


def test_replicas_that_part_behind_the_last_digest_part_between_it_and_the_end() -> None:
    (found,) = ask("replicas", trained(31, parts_at(31)))
    assert (found.step, found.evidence["since"]) == (31, 29)


def test_replicas_part_at_one_step_where_those_before_were_digested() -> None:
    for job in (trained(30, parts_at(9)), trained(30, parts_at(27), closely=(25, 28))):
        (found,) = ask("replicas", job)
        assert "since" not in found.evidence and " at step " in found.sentence()


def test_the_reason_is_looked_for_in_all_steps_between() -> None:
    def told(rank: int, step: int) -> dict[str, Any]:
        return {"unreduced": True} if (rank, step) == (1, 26) else {}

    (found,) = ask("replicas", trained(30, parts_at(26), told))
    assert (found.cause, found.ranks) == ("gradients not reduced", (1,))
    (found,) = ask("replicas", trained(30, parts_at(30), told))
    assert found.cause == "replicas differ"


def test_replicas_that_stay_together_are_left_alone() -> None:
    assert ask("replicas", trained(30)) == []


def test_parameters_that_are_the_same_at_steps_far_apart_are_not_called_frozen() -> None:
    assert ask("progress", trained(30, lambda rank, step: "p" if step in (21, 24) else f"p{step}")) == []


def test_parameters_that_stand_still_for_most_of_the_training_are_frozen() -> None:
    (found,) = ask("progress", trained(40, lambda rank, step: f"p{min(step, 18)}"))
    assert (found.cause, found.step) == ("parameters frozen", 21)
    assert ask("progress", trained(30, lambda rank, step: f"p{min(step, 18)}")) == []


def test_a_number_that_is_not_finite_came_after_the_last_look() -> None:
    job = trained(20)
    job[1].writes("payload", of="step", finite=False, since=17)
    (found,) = ask("finite", job)
    assert found.sentence() == "NaN or infinite parameters in rank 1 between step 17 and step 20"
    assert ask("finite", trained(20)) == []


def test_samples_are_counted_by_index_where_batches_are_not_digested() -> None:
    assert ask("samples", trained(30), trained(30)) == []
    (found,) = ask("samples", trained(29), trained(30))
    assert (found.cause, found.ranks, found.step) == ("samples lost", (0, 1), 30)


def test_samples_without_an_index_are_not_counted() -> None:
    with pytest.raises(Abstain, match="digested at some steps only"):
        ask("samples", trained(30, indexed=False), trained(30, indexed=False))


def test_several_ranks_do_not_share_a_batch_that_nobody_digested() -> None:
    job = trained(30)
    for one in job.ranks:
        one.enters("load").writes("payload", of="load", indices=[2 + one.rank]).enters("forward")
        one.enters("optimize").enters("step").done = 31
    assert [f.cause for f in ask("samples", job, trained(30))] == ["samples duplicated"]


def test_two_runs_are_compared_at_the_steps_that_both_have_digested() -> None:
    one, other = trained(30).history(), trained(30, closely=(17, 30)).history()
    assert explain_difference(one, other) and explain_difference(one, other, results=True) == ""
    parted = trained(30, lambda rank, step: f"p{step}" if step < 27 else "q", closely=(17, 30)).history()
    assert "step 28" in explain_difference(one, parted, results=True)


def counted(steps: int, amount: Callable[[int], int]) -> Golden:
    """Return a job of one rank with a census after some steps, of `amount(step)` tensors."""
    job = Golden(1)
    for step in range(1, steps + 1):
        job.trains(1)
        if is_digested(step, "sparse"):
            held = {"count": amount(step), "bytes": 100 * amount(step)}
            lines = [{"meter": "tensor", "site": "net.py:7", "function": "forward", **held}]
            job[0].writes("census", lines=lines, bytes=0, descriptors=16, threads=4, rss=1000, ms=1)
    return job.ends_well()


def test_a_leak_grows_between_neighbours_and_its_amount_is_that_of_a_step() -> None:
    (found,) = ask("leak", counted(100, lambda step: 3 * step))
    assert (found.cause, found.step) == ("leak", 4)
    assert found.evidence["grown"][0]["count_per_step"] == 3
    assert (found.evidence["suspect_step"], found.evidence["sure_step"]) == (9, 17)


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param(lambda step: min(step, 60), id="a cache that is full at step 60"),
        pytest.param(lambda step: step // 8, id="one more in 8 steps"),
        pytest.param(lambda step: step % 20, id="emptied every 20 steps"),
        pytest.param(lambda step: 7, id="as many as ever"),
    ],
)
def test_what_does_not_grow_at_every_step_is_no_leak(amount: Callable[[int], int]) -> None:
    assert ask("leak", counted(100, amount)) == []
