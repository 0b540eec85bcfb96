"""Rounding is told from other differences: by its size, and only where the order of sums can differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from signal import SIGKILL

import pytest
from support.asking import ask, objection
from support.golden import Golden

from breakrank.analysis import rounding
from breakrank.history.reader import History
from breakrank_agent.agent.sketch import Sketch

numpy = pytest.importorskip("numpy")

F32, BF16 = 2.0**-23, 2.0**-7
SIZES = (9000, 10)
STEPS = 8


@dataclass(frozen=True)
class Run:
    """A golden run: how far each part of its parameters ends from the usual ones, and how it came to its end."""

    off: tuple[float, float] = (0.0, 0.0)
    ranks: int = 3
    again: bool = True
    eps: float = F32
    dtype: str = "float32"
    #: The way that training takes the parameters after the first step, relative to their norm.
    way: float = 0.1
    bare: bool = False
    #: Of the gradient of the small part, how many elements were 0 and how many rounding; and the optimizer's settings.
    faint: tuple[int, int] | None = None
    settings: tuple[tuple[str, str], ...] = (("lr", "0.001"), ("betas", "(0.9, 0.999)"))

    def history(self) -> History:
        """Write the history down."""
        job = Golden(self.ranks)
        if self.again:
            job.trains(3)
            job[self.ranks - 1].dies(SIGKILL)
            job.ended_by_us().again()
        job.trains(1)
        for one in job.ranks:
            one.writes("names", names=["weight", "bias"], eps=self.eps)
            self.sketches(one, after=False)
            if self.faint is not None:
                still, faint = self.faint
                one.writes("settings", step=1, optimizer=1, param_group=0, values=dict(self.settings))
                one.writes("inputs", gradients=["a", "b"], still=[0, still], faint=[0, faint])
        job.trains(STEPS - 1)
        for one in job.ranks:
            one.enters("collective", dtype=self.dtype, reduce="SUM")
            self.sketches(one, after=True)
            one.ends(params=f"off by {self.off}")
        return job.history()

    def sketches(self, one, after):
        """Record a sketch: `off` is relative to the norm of each part."""
        sketch = Sketch(lambda signs: numpy.frombuffer(signs, "int8").astype("float64"))
        for part, (size, off) in enumerate(zip(SIZES, self.off, strict=True)):
            draw = numpy.random.default_rng(part)
            usual, way, noise = draw.normal(size=size), draw.normal(size=size), draw.normal(size=size)
            sketch.add([usual + after * (self.way * way + off * noise)])
        if not self.bare:
            one.writes("sketch", **sketch.facts())


SOUND = Run(again=False)
#: Three ranks were seen to come to some tenths of ε after a restart.
ROUNDED = Run(off=(5e-8, 5e-8))


def differs(run, control=SOUND, **terms):
    """Return whether the oracle objects, as it must where the digests alone are looked at."""
    terms = {"ranks": run.ranks, "steps": STEPS, **terms}
    found = ask("control", run.history(), control.history(), **terms)
    assert not found or found[0].cause == "wrong result"
    return bool(found)


def remarks(run, control=SOUND):
    return list(rounding.remarks(run.history(), control.history(), run.ranks, STEPS))


def test_what_rounding_explains_is_no_finding_and_is_said():
    assert not differs(ROUNDED)
    (said,) = remarks(ROUNDED)
    assert said.startswith("the parameters of ranks 0, 1 and 2 lie ") and "that is rounding" in said
    size = float(said.split(" lie ")[1].split()[0])
    assert 1e-8 < size < 1e-7


@pytest.mark.parametrize("ranks", [3, 4, 8, 64])
def test_it_is_so_for_any_number_of_ranks(ranks):
    assert not differs(replace(ROUNDED, ranks=ranks), replace(SOUND, ranks=ranks))


@pytest.mark.parametrize(
    "run",
    [
        # A step that was lost, one sample of some hundreds, a weight that a flipped bit of the exponent doubled.
        replace(ROUNDED, off=(1e-2, 1e-2)),
        replace(ROUNDED, off=(1e-5, 1e-5)),
        # A small part that alone is wrong.
        replace(ROUNDED, off=(5e-8, 1e-3)),
    ],
    ids=["all", "a-little", "one-small-part"],
)
def test_what_is_beyond_rounding_is_found_and_its_size_is_said(run):
    assert differs(run)
    (said,) = remarks(run)
    assert "that is more than rounding" in said


@pytest.mark.parametrize(
    ("run", "control"),
    [
        (replace(ROUNDED, again=False), SOUND),
        (replace(ROUNDED, ranks=2), replace(SOUND, ranks=2)),
        (replace(ROUNDED, ranks=1), replace(SOUND, ranks=1)),
    ],
    ids=["started-once", "two-ranks", "one-rank"],
)
def test_where_the_order_cannot_differ_one_bit_is_a_difference(run, control):
    assert differs(run, control)
    assert remarks(run, control) == []


def test_another_number_of_ranks_sums_in_another_order():
    fewer = replace(ROUNDED, ranks=2)
    assert not differs(fewer, ranks=3)
    assert not differs(replace(ROUNDED, ranks=2, again=False), ranks=3)
    assert differs(replace(fewer, off=(1e-4, 1e-4)), ranks=3)


@pytest.mark.parametrize("side", ["run", "control"])
def test_without_a_sketch_the_digest_decides(side):
    run, control = (replace(one, bare=side == name) for name, one in (("run", ROUNDED), ("control", SOUND)))
    assert differs(run, control)
    assert remarks(run, control) == []


def test_a_tolerance_that_is_given_replaces_the_bound():
    assert not differs(replace(ROUNDED, off=(1e-2, 1e-2)), tolerance=0.1)


def test_within_a_tolerance_that_is_given_rounding_explains_nothing_more():
    def told(run, norm):
        history = run.history()
        for lived in history.last:
            lived.end["norm"] = norm
        return history

    terms = {"ranks": 3, "steps": STEPS, "tolerance": 1e-9}
    assert objection("control", told(ROUNDED, 1.0 + 1e-7), told(SOUND, 1.0), **terms)
    once = replace(ROUNDED, again=False)
    assert objection("control", told(once, 1.0 + 1e-7), told(SOUND, 1.0), **terms)


def test_the_bound_follows_the_parameters_dtype():
    coarse, sound = replace(ROUNDED, off=(1e-3, 1e-3), eps=BF16), replace(SOUND, eps=BF16)
    assert not differs(coarse, sound)
    assert differs(replace(coarse, eps=F32))


def test_half_a_mean_step_is_never_called_rounding():
    slow = {"eps": BF16, "way": 0.01}
    assert differs(Run(off=(1e-3, 1e-3), **slow), replace(SOUND, **slow))
    assert not differs(Run(off=(2e-4, 2e-4), **slow), replace(SOUND, **slow))


def test_gradients_that_are_reduced_in_a_coarser_dtype_are_rounded_by_it():
    off = (3e-4, 3e-4)
    assert differs(Run(off=off))
    assert not differs(Run(off=off, dtype="torch.bfloat16"), replace(SOUND, dtype="torch.bfloat16"))


def test_numbers_that_the_program_names_are_rounded_and_counts_are_not():
    def told(run, **state):
        history = run.history()
        for lived in history.last:
            lived.end["state"] = state
        return history

    control = told(SOUND, loss=0.5, updates=40_000_000)
    terms = {"ranks": 3, "steps": STEPS}
    assert ask("control", told(ROUNDED, loss=0.5 + 1e-8, updates=40_000_000), control, **terms) == []
    assert objection("control", told(ROUNDED, loss=0.5 + 1e-4, updates=40_000_000), control, **terms)
    assert objection("control", told(ROUNDED, loss=0.5, updates=39_999_999), control, **terms)
    whole = told(SOUND, loss=1, updates=40_000_000)
    assert ask("control", told(ROUNDED, loss=1 + 1e-8, updates=40_000_000), whole, **terms) == []
    once = replace(ROUNDED, again=False)
    assert objection("control", told(once, loss=0.5 + 1e-8, updates=40_000_000), control, **terms)


#: Elements of the small part whose gradient is nothing but rounding, which Adam makes whole steps of.
STRAYED = replace(ROUNDED, off=(5e-8, 1e-3), faint=(0, 10))


def test_what_adam_makes_of_a_gradient_that_is_rounding_is_no_finding():
    assert not differs(STRAYED, replace(SOUND, faint=(0, 10)))
    (said,) = remarks(STRAYED, replace(SOUND, faint=(0, 10)))
    assert "that is rounding" in said


@pytest.mark.parametrize(
    ("run", "control"),
    [
        # Further than steps of the learning rate go, or in the other part, whose gradient is no rounding.
        (replace(STRAYED, off=(5e-8, 0.1)), replace(SOUND, faint=(0, 10))),
        (replace(STRAYED, off=(1e-3, 5e-8)), replace(SOUND, faint=(0, 10))),
        # A gradient that all have as 0 moves nothing, and one that only one side has as rounding is another one.
        (replace(STRAYED, faint=(10, 0)), replace(SOUND, faint=(10, 0))),
        (STRAYED, replace(SOUND, faint=(0, 0))),
        (STRAYED, SOUND),
        # SGD takes a gradient as it is.
        (replace(STRAYED, settings=(("lr", "0.001"),)), replace(SOUND, faint=(0, 10), settings=(("lr", "0.001"),))),
    ],
    ids=["far", "other-part", "zeros", "one-side", "unknown", "sgd"],
)
def test_other_differences_of_such_a_part_are_found(run, control):
    assert differs(run, control)
