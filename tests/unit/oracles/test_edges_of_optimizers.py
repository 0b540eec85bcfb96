"""Optimizers of what is not in use, gradients that nothing zeroes, and modes: what is named, and what is excused."""

from __future__ import annotations

from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.oracles import Abstain
from breakrank.verdict import Finding


def seen(job: Golden) -> Golden:
    """Return the job, whose ranks were seen to have optimizers."""
    for one in job.ranks:
        one.writes("inputs", gradients=["a"])
    return job


def test_without_an_optimizer_nothing_is_said() -> None:
    with pytest.raises(Abstain, match=r"^no optimizer of torch was seen to step$"):
        ask("optimizers", Golden(2).trains(2).ends_well().history())


def test_an_optimizer_of_what_is_not_in_use_is_named() -> None:
    job = seen(Golden(2).trains(2))
    for one in job.ranks:
        one.writes("stray", optimizer=1, parameters=2, unowned=["head.weight", "head.bias"])
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step) == ("stray optimizer", (0, 1), 1)
    assert "and head.weight, which has a gradient, is in no optimizer" in found.sentence()


@pytest.mark.parametrize(("names", "words"), [
    (["head.weight"], "head.weight of ranks 0 and 1 had a gradient in the first steps, and no optimizer has it"),
    (["head.weight", "head.bias"], "head.weight and 1 more of ranks 0 and 1 had a gradient in the first steps, and no"),
])  # fmt: skip
@pytest.mark.parametrize("moved", [False, True])
def test_a_head_that_no_optimizer_has_is_named_unless_something_else_moves_it(
    names: Any, words: str, moved: bool
) -> None:
    job = seen(Golden(2).trains(4))
    for one in job.ranks:
        one.writes("forgotten", parameters=len(names), names=names)
    if moved:
        job[1].writes("forgotten", parameters=len(names), names=names, moved=True)
    found = ask("optimizers", job.ends_well().history())
    assert [(f.cause, f.ranks, f.step) for f in found] == ([] if moved else [("in no optimizer", (0, 1), 1)])
    assert moved or found[0].sentence().startswith(words)


def test_gradients_that_nothing_zeroes_are_named_with_their_optimizer() -> None:
    job = seen(Golden(2).trains(4))
    job[1].writes("unzeroed", optimizer=2, steps=4)
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step) == ("gradients not zeroed", (1,), 2)
    assert "of optimizer 2 on rank 1 in its first 4 steps" in found.sentence()


def modes(*ranks: str) -> list[Finding]:
    """Return the findings on a job whose ranks train in these modes, a letter a step: train, eval, or none."""
    job = seen(Golden(len(ranks)))
    for number in range(len(ranks[0])):
        for one, letters in zip(job.ranks, ranks, strict=True):
            one.enters("optimize")
            if letters[number].strip() and letters[number] != letters[number - 1 : number]:
                one.writes("mode", optimizer=1, train=letters[number] == "t")
            one.ends_step(f"p{number}")
    return [found for found in ask("optimizers", job.ends_well().history()) if found.cause == "eval mode"]


@pytest.mark.parametrize(("ranks", "blamed", "step", "words"), [
    (("ttee", "ttee"), (0, 1), 3, "batch norm"),
    (("tttt", "ttet"), (1,), 3, ", and the others in train mode"),
    (("tttt", "eeee"), (1,), 1, "trained in eval mode from step 1 on"),
])  # fmt: skip
def test_ranks_that_are_left_in_eval_mode_are_named(ranks: Any, blamed: Any, step: int, words: str) -> None:
    (found,) = modes(*ranks)
    assert (found.ranks, found.step) == (blamed, step) and words in found.sentence()
    assert found.evidence["others"] == ("" if len(blamed) == len(ranks) else ", and the others in train mode")


def test_a_step_that_the_others_no_longer_made_is_not_one_that_they_train_in() -> None:
    job = seen(Golden().trains(2))
    for one in job.ranks:
        one.writes("mode", optimizer=1, train=True)
    job.trains(1)
    job[1].writes("mode", step=4, optimizer=1, train=False)
    assert ask("optimizers", job.trains(1, only=1).ends_well().history()) == []


@pytest.mark.parametrize("ranks", [("tttt", "tttt"), ("eeee", "eeee"), ("tett", "tett"), ("ttte", "ttte"), ("    ",)])
def test_a_mode_that_is_chosen_or_left_again_is_none_to_object_to(ranks: Any) -> None:
    assert modes(*ranks) == []


def losses(*ranks: list[tuple[float, str, int]], backward: int = 1) -> list[Finding]:
    """Return the findings on a job whose ranks have these factors, reductions and numbers of elements, one a step."""
    job = seen(Golden(len(ranks)))
    for number in range(max(map(len, ranks), default=0)):
        for one, own in zip(job.ranks, ranks, strict=True):
            if number < len(own) and (not number or own[number] != own[number - 1]):
                factor, reduction, elements = own[number]
                one.writes("loss", backward=backward, factor=factor, reduction=reduction, elements=elements)
            one.enters("optimize").ends_step()
    causes = ("unequal batches", "loss scale differs")
    return [found for found in ask("optimizers", job.ends_well().history()) if found.cause in causes]


def same(count: int, factor: float = 1.0, reduction: str = "mean", elements: int = 8) -> list[tuple[float, str, int]]:
    return [(factor, reduction, elements)] * count


@pytest.mark.parametrize(("ranks", "cause", "words"), [
    ((same(6), same(6, elements=4)), "unequal batches", "means over 8 on rank 0 and 4 on rank 1"),
    ((same(4), same(4, elements=4)), "unequal batches", "from step 1 on"),
    ((same(6), same(6, factor=0.5)), "loss scale differs", "1 on rank 0 and 0.5 on rank 1"),
    ((same(6, reduction="sum"), same(6, 0.5, "sum")), "loss scale differs", "1 on rank 0 and 0.5 on rank 1"),
    ((same(9) + same(1, elements=2), same(10, elements=4)), "unequal batches", "8 on rank 0 and 4 on rank 1"),
    ((same(6), same(6), same(6, elements=2)), "unequal batches", "8 on ranks 0 and 1 and 2 on rank 2"),
])  # fmt: skip
def test_samples_that_weigh_otherwise_on_each_rank_are_named(ranks: Any, cause: str, words: str) -> None:
    (found,) = losses(*ranks)
    assert (found.cause, found.ranks) == (cause, tuple(range(len(ranks)))) and words in found.sentence()


@pytest.mark.parametrize("ranks", [
    (same(6), same(6)),
    (same(3), same(3, elements=4)),
    (same(6), same(6, factor=0.5, elements=4)),
    (same(6, reduction="sum"), same(6, reduction="sum", elements=4)),
    (same(6), same(6, factor=8.0, reduction="sum")),
    (same(4) + same(6, elements=6), same(10, elements=4)),
    ([(1.0, "mean", n) for n in (8, 9, 7, 8, 6, 8)], [(1.0, "mean", n) for n in (6, 5, 7, 5, 6, 5)]),
    (same(6), []),
    (same(6),),
])  # fmt: skip
def test_weights_that_are_equal_or_change_from_step_to_step_are_left_alone(ranks: Any) -> None:
    assert losses(*ranks) == []


def test_of_several_losses_in_a_step_nothing_is_known() -> None:
    assert losses(same(6), same(6, elements=4), backward=2) == []


def test_a_collective_that_cuts_the_graph_is_named_with_its_line() -> None:
    job = seen(Golden(2).trains(2))
    job[1].writes("cut", op="allgather_", site="train.py:9").writes("cut", op="alltoall_", site="train.py:10")
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step, found.places) == ("graph cut", (1,), 2, ("train.py:9",))
    assert "of rank 1 end at all_gather (train.py:9) at step 2" in found.sentence()
    job = seen(Golden(1).trains(1))
    job[0].writes("cut", op="new_one_", site="")
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert found.places == () and "end at new_one_ (no line of its own)" in found.sentence()


def test_parameters_that_no_rank_trains_are_named() -> None:
    job = seen(Golden(2).trains(4))
    for one in job.ranks:
        one.writes("untrained", parameters=2, names=["gate.weight", "gate.bias"])
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step) == ("never trained", (0, 1), 1)
    assert found.sentence().startswith("gate.weight of ranks 0 and 1 never had a gradient")
    assert found.evidence["name"] == "gate.weight"


@pytest.mark.parametrize(("how", "cause", "words"), [
    ({"checkpoint": "net.py:8"}, "checkpoint without gradients", "that calls its module (net.py:8) is handed nothing"),
    ({"checkpoint": ""}, "checkpoint without gradients", "that calls its module is handed nothing"),
    ({"zeros": True}, "zeros by zeros", "gate.weight and 1 more of ranks 0 and 1 are zeros"),
])  # fmt: skip
def test_why_nothing_trains_parameters_is_told(how: dict[str, Any], cause: str, words: str) -> None:
    job = seen(Golden(2).trains(4))
    for one in job.ranks:
        one.writes("untrained", parameters=2, names=["gate.weight", "gate.bias"], **how)
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.places) == (cause, ("net.py:8",) if how.get("checkpoint") else ())
    assert words in found.sentence()


@pytest.mark.parametrize(("site", "part", "words"), [
    ("train.py:9", 0, "gradient of w at step 2 while all_reduce (train.py:9) was"),
    ("", 7, "gradient of a parameter at step 2 while all_reduce (no line of its own) was"),
])  # fmt: skip
def test_a_gradient_that_a_collective_is_at_work_on_is_named(site: str, part: int, words: str) -> None:
    job = seen(Golden(2).trains(1))
    for one in job.ranks:
        one.writes("names", names=["w"], eps=1e-7)
        one.enters("optimize").writes("unawaited", op="allreduce_", site=site, part=part)
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step) == ("not waited for", (0, 1), 2)
    assert words in found.sentence()


def test_parameters_that_some_rank_trains_are_left_alone() -> None:
    job = seen(Golden(2).trains(4))
    job[0].writes("untrained", parameters=1, names=["gate.weight"])
    assert [found.cause for found in ask("optimizers", job.ends_well().history())] == []


@pytest.mark.parametrize(("site", "places"), [("model.py:3", ("model.py:3",)), ("", ())])
def test_dropout_in_a_validation_is_named(site: str, places: tuple[str, ...]) -> None:
    job = seen(Golden(2).trains(2))
    job[1].writes("dropout", site=site).writes("dropout", site="later.py:1")
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step, found.places) == ("dropout in eval mode", (1,), 2, places)
    assert found.evidence == {"at": " (model.py:3)" if site else ""}


@pytest.mark.parametrize(("kind", "facts", "cause"), [
    ("stray", {"optimizer": 1, "parameters": 2, "unowned": ["head.weight"]}, "stray optimizer"),
    ("unzeroed", {"optimizer": 2, "steps": 4}, "gradients not zeroed"),
    ("untrained", {"parameters": 2, "names": ["gate.weight"]}, "never trained"),
    ("forgotten", {"parameters": 1, "names": ["head.weight"]}, "in no optimizer"),
])  # fmt: skip
def test_of_what_a_rank_says_twice_the_first_is_told(kind: str, facts: Any, cause: str) -> None:
    job = seen(Golden(1).trains(4))
    job[0].writes(kind, **facts).writes(kind, **{name: _other(value) for name, value in facts.items()})
    (found,) = ask("optimizers", job.ends_well().history())
    told = [facts["unowned"][0] if name == "unowned" else value for name, value in facts.items() if name != "names"]
    assert found.cause == cause and set(told) <= {*found.evidence.values()}


def _other(value: Any) -> Any:
    return ["other"] if isinstance(value, list) else value + 7


def test_dropout_before_the_first_step_is_told_of_the_first() -> None:
    job = seen(Golden(1))
    job[0].writes("dropout", site="model.py:3")
    (found,) = ask("optimizers", job.trains(2).ends_well().history())
    assert found.step == 1


def test_behind_a_collective_that_cuts_the_graph_nothing_is_said_to_lack_a_gradient() -> None:
    job = seen(Golden(1).trains(2))
    job[0].writes("cut", op="allgather_", site="train.py:9").writes("untrained", parameters=1, names=["gate.weight"])
    assert [found.cause for found in ask("optimizers", job.ends_well().history())] == ["graph cut"]


def test_an_optimizer_of_frozen_parameters_is_told_from_one_of_what_is_not_in_use() -> None:
    job = seen(Golden(1).trains(2))
    job[0].writes("stray", optimizer=2, parameters=3, unowned=["norm.weight"], frozen=True)
    (found,) = ask("optimizers", job.ends_well().history())
    assert found.cause == "optimizer of frozen parameters"
    assert found.sentence().startswith("all parameters of optimizer 2 of rank 0 (3) are frozen, and norm.weight")


@pytest.mark.parametrize(("facts", "said", "places"), [
    (
        {"parameters": 1, "steps": 2, "wrapped": False, "site": "train.py:9"},
        "ranks 0 and 1 froze a.weight too late, at step 3 (train.py:9): train(), which freezes them, was not called "
        "before, and 2 steps had trained them",
        ("train.py:9",),
    ),
    (
        {"parameters": 3, "steps": 0, "wrapped": True, "site": ""},
        "ranks 0 and 1 froze a.weight and 2 more too late, at step 3: the wrapper, which was made before, waits for a "
        "gradient in vain",
        (),
    ),
])  # fmt: skip
def test_parameters_that_are_frozen_too_late_are_named(facts: Any, said: str, places: tuple[str, ...]) -> None:
    job = seen(Golden(2).trains(3))
    for one in job.ranks:
        one.writes("frozen", name="a.weight", **facts).writes("frozen", **{**facts, "name": "later"})
    (found,) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step, found.places) == ("frozen too late", (0, 1), 3, places)
    assert found.sentence() == said


@pytest.mark.parametrize(("site", "places"), [("model.py:3", ("model.py:3",)), ("", ())])
def test_a_spectral_norm_that_nothing_has_fitted_is_named(site: str, places: tuple[str, ...]) -> None:
    job = seen(Golden(2).trains(2))
    job[1].writes("spectral", name="0.weight", ratio=7.25, site=site).writes("spectral", name="1", ratio=2.0, site="")
    (found,) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step, found.places) == ("spectral norm not fitted", (1,), 1, places)
    assert found.evidence == {"name": "0.weight", "ratio": "7.25", "at": " (model.py:3)" if site else ""}


@pytest.mark.parametrize(("site", "places"), [("model.py:3", ("model.py:3",)), ("", ())])
def test_a_clip_of_gradients_that_are_scaled_is_named(site: str, places: tuple[str, ...]) -> None:
    job = seen(Golden(2).trains(2))
    clip = {"limit": 0.5, "norm": 40000.0, "scale": 65536.0}
    for one in job.ranks:
        one.writes("scaled_clip", site=site, **clip).writes("scaled_clip", site="later.py:1", **clip)
    (found,) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step, found.places) == ("clipped while scaled", (0, 1), 2, places)
    assert found.evidence == {"limit": "0.5", "scale": "65536", "at": " (model.py:3)" if site else ""}


def test_what_is_frozen_before_the_first_step_is_told_of_the_first() -> None:
    job = seen(Golden(1))
    job[0].writes("frozen", name="a", parameters=1, steps=0, wrapped=True, site="")
    (found,) = ask("optimizers", job.trains(2).ends_well().history())
    assert found.step == 1
