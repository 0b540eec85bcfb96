"""The first setting of an optimizer that is not the same on all ranks."""

from __future__ import annotations

from support.golden import Golden

from breakrank.analysis.settings import first_parting


def told(*ranks: list[dict[str, str]], optimizer: int = 1, param_group: int = 0) -> Golden:
    """Return a job whose ranks change these settings, step by step."""
    job = Golden(len(ranks))
    for one, steps in zip(job.ranks, ranks, strict=True):
        for values in steps:
            one.enters("optimize")
            if values:
                one.writes("settings", optimizer=optimizer, param_group=param_group, values=values)
            one.ends_step()
    return job


def words(job: Golden, until: int = 9) -> str:
    found = first_parting(job.history().last, until)
    return found.words() if found is not None else ""


def test_the_step_from_which_a_setting_differs_is_said_with_its_values() -> None:
    job = told([{"lr": "0.5"}, {}, {}], [{"lr": "0.5"}, {}, {"lr": "0.25"}])
    assert words(job) == "the learning rate is 0.5 on rank 0 and 0.25 on rank 1 from step 3"
    assert words(job, until=2) == ""


def test_the_optimizer_and_the_group_are_named_where_there_are_others() -> None:
    job = told([{"weight_decay": "0"}], [{"weight_decay": "0.1"}], [{"weight_decay": "0"}], optimizer=2, param_group=1)
    said = "the weight decay of group 2 of optimizer 2 is 0 on ranks 0 and 2 and 0.1 on rank 1 from step 1"
    assert words(job) == said


def test_numbers_are_cut_only_where_they_still_differ() -> None:
    assert " is 0.02 on rank 0 and 0.2 on" in words(told([{"lr": "0.020000000000000004"}], [{"lr": "0.2"}]))
    close = words(told([{"lr": "0.1"}], [{"lr": "0.10000000000000001234"}]))
    assert " is 0.1 on rank 0 and 0.10000000000000001234 on" in close
    assert " is (0.9, 0.999) on rank 0" in words(told([{"betas": "(0.9, 0.999)"}], [{"betas": "(0.9, 0.99)"}]))


def test_a_setting_that_not_all_have_is_not_compared() -> None:
    assert words(told([{"lr": "0.5", "momentum": "0.9"}], [{"lr": "0.5"}])) == ""
    assert words(told([], [{"lr": "0.5"}])) == ""
