"""The judge's questions to the oracles: the evidence that each is handed, who is asked, and the order of findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from signal import SIGABRT
from typing import Any

import pytest
from support.golden import Golden, plan, sound

from breakrank.history.reader import History
from breakrank.judge.judge import judge
from breakrank.judge.run_digest import digest
from breakrank.oracles import Abstain, Terms
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.verdict import Finding

#: An oracle that is registered for one test, and what it was asked.
Asked = list[tuple[History, History | None, Terms]]
Registers = Callable[..., Asked]


@pytest.fixture
def registers(monkeypatch: pytest.MonkeyPatch) -> Registers:
    """Return a function that makes oracles of these names the only ones; each returns its findings, or abstains."""

    def register(**found: Sequence[Finding]) -> Asked:
        asked: Asked = []

        def oracle(name: str) -> Callable[..., Sequence[Finding]]:
            def judging(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
                asked.append((history, control, terms))
                if not found[name]:
                    raise Abstain(f"{name} has nothing to say")
                return found[name]

            return judging

        known = {name: oracle(name) for name in found}
        monkeypatch.setattr("breakrank.judge.judge.all_oracles", lambda: known)
        return asked

    return register


def named(*names: str) -> History:
    """Return the history of a sound job whose ranks have parameters of these names."""
    job = Golden().trains(3)
    for one in job.ranks:
        one.writes("names", names=list(names), eps=1e-7)
    return job.ends_well().history()


def shards(history: History | None) -> list[Any]:
    """Return which parameters of each rank are on record as shards."""
    assert history is not None
    return [e.get("sharded") for lived in history.last for e in lived.of_kind("names")]


class TestEvidence:
    def test_parameters_that_are_apart_are_shards_in_the_run_and_in_its_control(self, registers: Registers) -> None:
        asked = registers(one=[])
        judge(named("gate.a", "up"), named("gate.b", "gate.c"), plan(apart=("gate*",)))
        ((history, control, _),) = asked
        assert (shards(history), shards(control)) == ([[0], [0]], [[0, 1], [0, 1]])

    def test_a_name_of_apart_that_fits_no_parameter_is_a_note(self) -> None:
        verdict = judge(named("gate.a"), None, plan(apart=("gate*", "expert*")))
        assert [note for note in verdict.notes if "parameter" in note] == ["no parameter has a name like 'expert*'"]

    def test_the_terms_are_those_of_the_plan_and_the_reference_is_handed_on(self, registers: Registers) -> None:
        asked, reference = registers(one=[]), sound(ranks=1)
        judge(sound(), None, plan(ranks=2, steps=7, tolerance=0.25, deadline_s=9.0), reference=reference)
        assert [terms for *_, terms in asked] == [Terms(2, 7, 0.25, 9.0, reference)]

    def test_without_a_number_of_ranks_and_of_steps_in_the_plan_the_records_have_them(
        self, registers: Registers
    ) -> None:
        asked = registers(one=[])
        of = plan(ranks=0, steps=0, runner="join", command=("torchrun", "train.py"))
        longer = Golden(3).trains(4).trains(1, only=2).ends_well().history()
        judge(sound(ranks=3), longer, of)
        judge(sound(ranks=3), None, of)
        assert [(terms.ranks, terms.steps) for *_, terms in asked] == [(3, 5), (3, 0)]

    def test_a_control_is_kept_from_oracles_that_are_not_to_compare(self, registers: Registers) -> None:
        asked = registers(one=[], two=[])
        judge(sound(), sound(steps=4), plan(oracles=("one", "two")), compared=("two",))
        judge(sound(), sound(steps=4), plan(oracles=("one", "two")), compared=())
        judge(sound(), sound(steps=4), plan(oracles=("one", "two")))
        assert [control is not None for _, control, _ in asked] == [False, True, False, False, True, True]


def test_a_verdict_has_the_digest_of_its_run() -> None:
    assert judge(sound(), None, plan()).digest == digest(sound())


class TestOrder:
    def test_oracles_of_the_plan_are_asked_first_then_the_usual_ones_and_then_all_others(self) -> None:
        # All of them abstain, as nothing is on record.
        verdict = judge(History(), None, plan(oracles=("race", "samples")))
        usual = [name for name in DEFAULT_ORACLES if name in verdict.abstained and name != "samples"]
        first = ["race", "samples", *usual]
        assert [*verdict.abstained][: len(first)] == first and len(verdict.abstained) > len(first)

    def test_an_oracle_that_is_unknown_or_silent_keeps_no_other_from_being_asked(self, registers: Registers) -> None:
        registers(one=[], two=[], three=[])
        verdict = judge(sound(), None, plan(oracles=("astrology", "two", "one")), silent=("two",))
        assert verdict.abstained == {"one": "one has nothing to say", "three": "three has nothing to say"}
        assert verdict.void[0] == "there is no oracle 'astrology'; oracles are one, two, three"

    def test_an_oracle_that_raises_keeps_no_other_from_being_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("breakrank.judge.judge.all_oracles", lambda: {"one": len, "two": _abstains})
        verdict = judge(sound(), None, plan(oracles=("one", "two")))
        assert verdict.abstained == {"two": "nothing to say"}
        assert verdict.void[0].startswith("the oracle one raised TypeError: ")

    @pytest.mark.parametrize(("first", "second"), [
        (("replicas differ", 0, 9), ("replicas differ", 1, 1)),
        (("replicas differ", 0, 2), ("replicas differ", 0, 3)),
        (("wrong result", 0, 2), ("replicas differ", 0, 3)),
        (("replicas differ", 1, 9), ("wrong result", 1, 2)),
        (("replicas differ", 0, 9), ("mapped file overwritten", 0, 2)),
        (("replicas differ", 0, 2), ("gradients differ", 0, 2)),
        (("gradients differ", 0, 2), ("replicas differ", 0, 3)),
    ])  # fmt: skip
    def test_findings_stand_by_attempt_and_step_and_behind_what_explains_them(
        self, registers: Registers, first: Any, second: Any
    ) -> None:
        job = Golden()
        for _ in range(2):
            job.trains(1)
            job[1].reports("ValueError")
            job.ended_by_us().again()
        history = job.trains(3).ends_well().history()
        ordered = [Finding("one", cause, (0,), step, attempt) for cause, attempt, step in (first, second)]
        said = [f"in attempt {one.attempt}: {one.sentence()}" for one in ordered]
        for found in (ordered, ordered[::-1]):
            registers(one=found)
            verdict = judge(history, None, plan(oracles=("one",)))
            assert [note for note in verdict.notes if note in said] == said


def test_gradients_that_differ_stand_before_the_result_that_is_wrong_for_them(registers: Registers) -> None:
    found = [Finding("one", cause, (0,), 2) for cause in ("gradients differ", "wrong result")]
    registers(one=found)
    assert [one.cause for one in judge(sound(), None, plan(oracles=("one",))).findings] == [
        "gradients differ",
        "wrong result",
    ]


def test_a_death_that_follows_from_a_call_that_ranks_made_unlike_is_no_finding_of_its_own(registers: Registers) -> None:
    job = Golden().trains(3)
    job[1].enters("collective", c=2, site="train.py:8").dies(SIGABRT)
    job[0].reports("RuntimeError")
    unlike = Finding("collectives", "dtype mismatch", (1,), 3, evidence={"group": "0", "number": 1})
    death = Finding("crash", "killed by a signal", (1,), 3)
    registers(collectives=[unlike], crash=[death])
    both = judge(job.history(), None, plan(oracles=("collectives", "crash")))
    assert (both.findings, both.also) == ((unlike,), ())
    first = judge(job.history(), None, plan(oracles=("collectives",)))
    assert (first.findings, first.also) == ((unlike,), ())
    second = judge(job.history(), None, plan(oracles=("crash",)))
    assert (second.findings, second.also) == ((death,), (unlike,))


def _abstains(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    raise Abstain("nothing to say")
