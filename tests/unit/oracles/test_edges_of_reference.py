"""Several ranks compared with one: which steps and parts are compared, within which bound, and what explains it."""

from __future__ import annotations

from signal import SIGKILL
from typing import Any

import pytest
from support import asking
from support.golden import Golden, sound

from breakrank.analysis import faint_gradients
from breakrank.history.reader import History
from breakrank.oracles import Abstain
from breakrank.oracles.reference import ULPS
from breakrank.verdict import Finding

EPS = 2.0**-23
#: The settings of an optimizer that divides a gradient by its own size.
ADAM = {"lr": "0.01", "betas": "(0.9, 0.999)", "eps": "1e-08"}


def trained(
    *norms: list[float] | None,
    ranks: int = 1,
    eps: float = EPS,
    names: Any = ("a", "b"),
    sizes: Any = (1, 1),
    elements: Any = None,
) -> Golden:
    """Return a job whose parts have these norms after each step; None where none were recorded.

    `sizes` are those of the ranks' batches, `elements` those of the parts, if they are on record.
    """
    job = Golden(ranks)
    for one in job.ranks:
        one.writes("names", names=[*names], eps=eps, **({} if elements is None else {"sizes": elements}))
        for norm in norms:
            one.loads([*range(sizes[one.rank])]).enters("step")
            one.done = one.step
            known = {} if norm is None else {"norms": norm}
            one.writes("payload", of="step", params="p", **known)
    return job


def ask(job: Golden, reference: History | None, **terms: Any) -> list[Finding]:
    history = job.ends_well().history()
    return asking.ask("reference", history, **{"steps": 2, "reference": reference, **terms})


def one(*norms: list[float] | None, **facts: Any) -> History:
    return trained(*norms, **facts).ends_well().history()


class TestAbstaining:
    def test_says_why(self) -> None:
        again = trained([1.0]).ended_by_us().again().trains(1)
        for job, reference, why in [
            (trained([1.0]), None, "there is no run of the same training as one rank"),
            (again, one([1.0]), "the job was started again, and its steps are not those of one run"),
            (trained(None), one([1.0]), "no rank ended well and recorded its parameters, here and as one rank"),
            (trained([1.0]), one(None), "no rank ended well and recorded its parameters, here and as one rank"),
        ]:
            with pytest.raises(Abstain) as said:
                ask(job, reference)
            assert str(said.value) == why

    def test_a_rank_that_did_not_end_well_is_not_compared(self) -> None:
        job = trained([5.0], ranks=2)
        job[0].dies(SIGKILL)
        job[1].dies(SIGKILL)
        with pytest.raises(Abstain, match="no rank ended well"):
            ask(job, one([1.0]))


class TestBounds:
    @pytest.mark.parametrize(("ulps", "objects"), [(2 * ULPS, False), (2 * ULPS + 2, True)])
    def test_each_rank_may_add_some_units_in_the_last_place_at_each_step(self, ulps: int, objects: bool) -> None:
        assert bool(ask(trained([1.0 + ulps * EPS], ranks=2), one([1.0]))) is objects
        later = trained([1.0], [1.0 + 2 * ulps * EPS], ranks=2)
        assert bool(ask(later, one([1.0], [1.0]))) is objects

    def test_the_bound_is_relative_to_the_norm_of_all_parameters(self) -> None:
        # Of the parts 3 and 4 the norm of the whole is 5.
        assert ask(trained([3.4, 4.0]), one([3.0, 4.0]), tolerance=0.1) == []
        (found,) = ask(trained([3.6, 4.0]), one([3.0, 4.0]), tolerance=0.1)
        assert found.evidence["first"] == ", in a first"

    def test_a_difference_to_either_side_is_one_and_a_number_that_is_none_too(self) -> None:
        for norm in (0.8, 1.2, float("nan")):
            assert len(ask(trained([norm]), one([1.0]), tolerance=0.1)) == 1

    def test_without_a_known_precision_results_must_be_equal(self) -> None:
        assert len(ask(trained([1.0 + EPS]), one([1.0], eps=0.0))) == 1
        assert ask(trained([1.0]), one([1.0], eps=0.0)) == []


class TestFindings:
    def test_the_first_step_that_parts_is_named_with_its_ranks_and_part(self) -> None:
        job = trained([1.0, 2.0], [1.0, 3.0], [9.0, 9.0], ranks=2)
        found = ask(job, one([1.0, 2.0], [1.0, 2.0], [1.0, 2.0]))
        assert found == [Finding("reference", "reference mismatch", (0, 1), 2, evidence={"first": ", in b first"})]

    def test_only_the_rank_that_parts_is_named(self) -> None:
        job = trained([1.0, 2.0], ranks=2)
        job[1]._events[-1]["norms"] = [1.0, 9.0]  # type: ignore[typeddict-item]
        assert ask(job, one([1.0, 2.0]))[0].ranks == (1,)

    def test_of_another_number_of_parts_only_the_norm_of_all_is_compared(self) -> None:
        # Of the parts 3 and 4 the norm of the whole is 5.
        alone = one([3.0, 4.0], elements=[10, 20])
        assert ask(trained([5.0], names=("flat",), elements=[30]), alone) == []
        (found,) = ask(trained([6.0], names=("flat",), elements=[30]), alone)
        assert (found.ranks, found.evidence["first"]) == ((0,), "")

    @pytest.mark.parametrize(("here", "there"), [(None, [10, 20]), ([30], None), ([29], [10, 20]), ([31], [10, 20])])
    def test_other_parts_of_which_nothing_says_that_they_are_the_whole_are_not_compared(
        self, here: Any, there: Any
    ) -> None:
        with pytest.raises(Abstain, match=r"^the ranks hold neither the whole of what one rank trains nor shards"):
            ask(trained([6.0], names=("flat",), elements=here), one([3.0, 4.0], elements=there))

    def test_parts_that_are_not_all_named_are_known_by_their_numbers(self) -> None:
        (found,) = ask(trained([1.0, 2.0], names=("a",)), one([1.0, 3.0], names=("a",)))
        assert found.evidence["first"] == ", in parameter 1 first"

    def test_where_no_names_are_on_record_results_must_be_equal_and_parts_are_known_by_their_numbers(self) -> None:
        bare = [trained([norm], names=()).ends_well() for norm in (1.0, 1.0 + EPS)]
        for job in bare:
            job[0]._events = [event for event in job[0]._events if event["kind"] != "names"]
        (found,) = ask(bare[1], bare[0].history())
        assert found.evidence["first"] == ", in parameter 0 first"

    def test_a_step_that_one_rank_did_not_make_is_not_compared(self) -> None:
        assert ask(trained([1.0], [9.0]), one([1.0])) == []

    def test_batches_of_several_sizes_explain_it(self) -> None:
        (found,) = ask(trained([1.0], ranks=2, sizes=(3, 1)), one([9.0], sizes=(4,)))
        assert (found.cause, found.evidence["sizes"]) == ("per-rank loss scaling", "3 and 1")

    def test_a_batch_is_counted_by_its_samples_where_they_have_no_numbers(self) -> None:
        job = trained([1.0], ranks=2, sizes=(2, 2))
        job[1].writes("payload", of="load", indices=None, samples=["s", "t", "u"], batch="b")
        (found,) = ask(job, one([9.0]))
        assert found.evidence["sizes"] == "2 and 5"

    def test_batches_of_other_steps_do_not_count(self) -> None:
        job = trained([1.0], [9.0], ranks=2)
        job[1].enters("load").writes("payload", of="load", indices=[1, 2, 3], samples=None, batch="b")
        (found,) = ask(job, one([1.0], [1.0]))
        assert found.cause == "reference mismatch"


def test_a_sound_job_is_its_own_reference() -> None:
    assert ask(Golden().trains(3), sound(ranks=1)) == []


class TestScale:
    """Gradients that are those of one rank times a number."""

    def job(self, *norms: list[float], sums: tuple[list[list[float]], ...]) -> Golden:
        """Return a job with these norms after each step, whose ranks' optimizers took gradients with these sums."""
        job = trained(*norms, ranks=len(sums))
        for one, taken in zip(job.ranks, sums, strict=True):
            one.writes("inputs", gradients=["g"], sums=taken)
        return job

    def test_all_that_is_said_of_them(self) -> None:
        alone = self.job([1.0, 2.0], sums=([[1.0, 2.0]],)).ends_well().history()
        found = ask(self.job([1.0, 3.0], sums=([[2.0, 4.0]], [[2.0, 4.0]])), alone)
        said = {"first": ", in b first", "said": "2 on ranks 0 and 1"}
        assert found == [Finding("reference", "gradients scaled", (0, 1), 1, 0, (), said)]
        (each,) = ask(self.job([1.0, 3.0], sums=([[0.5, 1.0]], [[3.0, 6.0]])), alone)
        assert each.evidence["said"] == "0.5 on rank 0 and 3 on rank 1"

    def test_all_ranks_are_named_though_one_alone_has_another_result(self) -> None:
        job = self.job([1.0, 2.0], sums=([[2.0, 4.0]], [[2.0, 4.0]]))
        for event in job[1]._events:
            if event["kind"] == "payload" and event["of"] == "step":
                event["norms"] = [1.0, 9.0]
        (found,) = ask(job, self.job([1.0, 2.0], sums=([[1.0, 2.0]],)).ends_well().history())
        assert (found.cause, found.ranks) == ("gradients scaled", (0, 1))

    def test_they_explain_the_first_step_alone(self) -> None:
        alone = self.job([1.0, 2.0], [1.0, 2.0], sums=([[1.0, 2.0]],)).ends_well().history()
        (found,) = ask(self.job([1.0, 2.0], [1.0, 3.0], sums=([[2.0, 4.0]], [[2.0, 4.0]])), alone)
        assert (found.cause, found.step) == ("reference mismatch", 2)


class TestNames:
    def renamed(self, *names: tuple[str, ...]) -> Golden:
        """Return a job of three steps, with other names of its two parts at the end of each."""
        job = Golden(1)
        for step, own in enumerate(names, 1):
            job[0].loads([0]).enters("step")
            job[0].done = job[0].step
            job[0].writes("names", names=[*own], eps=EPS)
            job[0].writes("payload", of="step", params="p", norms=[1.0, 2.0 if step < 3 else 9.0])
        return job

    def test_parts_are_called_as_they_were_named_last_by_then(self) -> None:
        alone = one([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], names=("x", "y"))
        (found,) = ask(self.renamed(("a", "b"), ("c", "d"), ("x", "y")), alone)
        assert (found.step, found.evidence["first"]) == (3, ", in y first")

    def test_what_wrappers_put_into_a_name_is_left_out(self) -> None:
        wrapped = ("module.a", "_orig_mod.b")
        (found,) = ask(trained([1.0, 3.0], names=wrapped), one([1.0, 2.0], names=("a", "b")))
        assert found.evidence["first"] == ", in b first"

    def test_parts_that_have_no_name_at_a_step_yet_have_those_of_later(self) -> None:
        job = Golden(1)
        job[0].loads([0]).enters("step")
        job[0].done = job[0].step
        job[0].writes("payload", of="step", params="p", norms=[1.0, 3.0])
        job[0].enters("load")
        job[0].writes("names", names=["a", "b"], eps=EPS).writes("names", names=["c", "d"], eps=EPS)
        (found,) = ask(job, one([1.0, 2.0]))
        assert found.evidence["first"] == ", in b first"


class TestSizes:
    def test_a_part_of_no_elements_is_compared_by_its_norm_alone(self) -> None:
        alone = one([0.0, 2.0], elements=[0, 4])
        assert ask(trained([0.0, 2.0], elements=[0, 4]), alone) == []
        assert len(ask(trained([0.0, 9.0], elements=[0, 4]), alone)) == 1
        assert ask(trained([0.0, 2.0], elements=[3, 4]), alone) == []

    def test_a_part_of_which_one_side_says_no_size_is_taken_for_whole(self) -> None:
        (found,) = ask(trained([1.0, 3.0], ranks=2), one([1.0, 2.0], elements=[10, 20]))
        assert (found.ranks, found.evidence["first"]) == ((0, 1), ", in b first")

    def test_a_rank_that_holds_nothing_of_a_part_is_not_compared_by_it(self) -> None:
        job = trained([1.0], names=("a",), ranks=2, elements=[1])
        for event in job[1]._events:
            if event["kind"] == "names":
                event["sizes"] = [0]
            elif event["kind"] == "payload" and event["of"] == "step":
                event["norms"] = [0.0]
        assert ask(job, one([1.0], names=("a",), elements=[1])) == []

    def test_steps_that_cannot_be_compared_take_nothing_from_those_that_can(self) -> None:
        assert ask(trained([1.0, 2.0], [5.0]), one([1.0, 2.0], [1.0, 2.0])) == []


class TestFaintGradients:
    """Elements whose gradient is nothing but rounding, of which some optimizers make whole steps."""

    def job(self, *norms: list[float], counts: tuple[int, int], settings: dict[str, str], ranks: int = 1) -> Golden:
        """Return a job whose first part's first gradient has so many elements of 0, and so many of rounding."""
        job = trained(*norms, ranks=ranks)
        for one in job.ranks:
            still, faint = counts
            one.writes("inputs", gradients=["g"], sums=[[1.0], [1.0]], still=[still, 0], faint=[faint, 0])
            one._events[-1]["step"] = 1
            one.writes("settings", optimizer=1, param_group=0, values=settings)
            one._events[-1]["step"] = 1
        return job

    def found(self, *norms: list[float], here: Any = (0, 4), there: Any = (0, 4), settings: Any = None) -> list[Any]:
        used = ADAM if settings is None else settings
        alone = self.job(*([1.0, 2.0] for _ in norms), counts=there, settings=used).ends_well().history()
        return ask(self.job(*norms, counts=here, settings=used), alone)

    @pytest.mark.parametrize(("apart", "objects"), [(0.039, False), (0.041, True)])
    def test_they_may_be_two_steps_of_the_learning_rate_apart(self, apart: float, objects: bool) -> None:
        assert bool(self.found([1.0 + apart, 2.0])) is objects
        assert bool(self.found([1.0, 2.0], [1.0 + 2 * apart, 2.0])) is objects

    def test_no_other_part_may(self) -> None:
        (each,) = self.found([1.0, 2.039])
        assert each.evidence["first"] == ", in b first"

    def test_an_optimizer_that_takes_gradients_as_they_are_makes_no_such_steps(self) -> None:
        assert self.found([1.001, 2.0], settings={"lr": "0.01", "momentum": "0.9"})

    def test_the_first_steps_of_rmsprop_are_longer(self) -> None:
        settings = {"lr": "0.01", "alpha": "0.99", "eps": "1e-08"}
        assert not self.found([1.39, 2.0], settings=settings)
        assert self.found([1.41, 2.0], settings=settings)

    @pytest.mark.parametrize("wrong", [{"here": (0, 0)}, {"there": (0, 0)}, {"here": (4, 0), "there": (4, 0)}])
    def test_a_gradient_that_one_side_alone_lacks_is_compared_as_ever(self, wrong: Any) -> None:
        assert self.found([1.001, 2.0], **wrong)

    def test_rounding_may_come_to_nothing_on_one_side(self) -> None:
        assert not self.found([1.039, 2.0], here=(4, 0))

    def test_a_learning_rate_that_is_no_number_is_none(self) -> None:
        for rate in ("", "nan", "fast"):
            assert self.found([1.001, 2.0], settings={**ADAM, "lr": rate})

    def test_it_is_noted(self) -> None:
        history = self.job([1.0, 2.0], counts=(0, 4), settings=ADAM, ranks=2).ends_well().history()
        (said,) = faint_gradients.remarks(history.last)
        assert said.startswith("the gradient of a has elements that are 0 but for rounding")
        sound = self.job([1.0, 2.0], counts=(4, 0), settings=ADAM).ends_well().history()
        assert list(faint_gradients.remarks(sound.last)) == []
