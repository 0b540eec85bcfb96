"""Growth at the edge of what is a leak, and all that a report says of one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from support import asking
from support.golden import Golden

from breakrank.history.reader import History
from breakrank.oracles import Abstain
from breakrank.oracles.leak import METERS, Key, growths, place
from breakrank.oracles.native_leak import slope
from breakrank.verdict import Finding

Line = Callable[[int], "dict[str, Any] | None"]


def of(
    meter: str, amount: Callable[[int], int], site: str = "net.py:7", size: int = 100, function: str = "forward"
) -> Line:
    """Return a census line by step: so many things of so many bytes each; none where there are none."""

    def line(step: int) -> dict[str, Any] | None:
        count = amount(step)
        known = {"meter": meter, "site": site, "function": function, "count": count, "bytes": size * count}
        return known if count else None

    return line


def leaking(
    *lines: Line, steps: int = 20, ranks: int = 1, limits: Any = None, uncounted: Collection[int] = (), **values: Any
) -> Golden:
    """Return a job whose ranks all have these lines in their census, at each step but those that are uncounted."""
    job = Golden(ranks)
    for step in range(1, steps + 1):
        job.trains(1)
        for one in job.ranks if step not in uncounted else ():
            shown = [line for line in (make(step) for make in lines) if line is not None]
            first = {"limits": limits} if step == 1 and limits is not None else {}
            one.writes("census", lines=shown, **{"rss": 1000, "descriptors": 16, **values}, **first)
    return job


def ask(job: Golden, oracle: str = "leak") -> list[Finding]:
    return asking.ask(oracle, job.ends_well().history(), ranks=job.size, steps=20)


class TestHowLong:
    def test_fourteen_steps_of_growth_are_a_leak_and_thirteen_are_none(self) -> None:
        (found,) = ask(leaking(of("tensor", lambda step: max(step, 6)), steps=20))
        assert (found.step, found.evidence["suspect_step"], found.evidence["sure_step"]) == (7, 12, 20)
        assert ask(leaking(of("tensor", lambda step: max(step, 7)), steps=20)) == []

    def test_sixteen_steps_are_too_few_and_seventeen_are_enough(self) -> None:
        with pytest.raises(Abstain) as said:
            ask(leaking(of("tensor", lambda step: step), steps=16, ranks=2))
        assert str(said.value) == (
            "16 steps are too few to tell a leak from a cache that fills: it takes 17; suspect are "
            "net.py:7 in forward of rank 0, net.py:7 in forward of rank 1"
        )
        assert [f.step for f in ask(leaking(of("tensor", lambda step: step), steps=17))] == [4]

    def test_what_grew_at_six_steps_is_suspect_and_at_five_is_not(self) -> None:
        for since, suspect in ((9, True), (10, False)):
            with pytest.raises(Abstain) as said:
                ask(leaking(of("tensor", lambda step, since=since: max(step, since)), steps=15))
            assert ("suspect" in str(said.value)) is suspect

    def test_the_longest_rank_says_how_many_steps_were_seen(self) -> None:
        job = leaking(of("tensor", lambda step: step), steps=5, ranks=2)
        job[0].writes("census", lines=[], rss=1, descriptors=1)
        with pytest.raises(Abstain, match=r"^6 steps are too few .*: it takes 17$"):
            ask(job)

    def test_a_job_of_as_many_steps_as_are_not_judged_is_too_short(self) -> None:
        with pytest.raises(Abstain, match=r"^3 steps are too few .*: it takes 17$"):
            ask(leaking(of("tensor", lambda step: step), steps=3))

    def test_one_rank_with_enough_steps_is_judged(self) -> None:
        job = leaking(of("tensor", lambda step: step), steps=20, ranks=2)
        job[1]._events = [e for e in job[1]._events if e["kind"] != "census" or e["step"] < 10]
        assert [f.ranks for f in ask(job)] == [(0,)]

    def test_a_thing_that_came_into_being_grew_from_nothing(self) -> None:
        (found,) = ask(leaking(of("tensor", lambda step: max(0, step - 4)), steps=20))
        assert (found.step, found.evidence["grown"][0]["count_per_step"]) == (5, 1.0)

    def test_the_first_of_its_kind_is_one_more_than_none(self) -> None:
        (found,) = ask(leaking(of("thread", lambda step: max(0, step - 4), size=0), steps=20))
        assert found.step == 5

    def test_a_thing_that_is_gone_at_the_last_step_does_not_grow(self) -> None:
        assert ask(leaking(of("tensor", lambda step: step if step < 20 else 0), steps=20)) == []

    def test_growth_that_paused_counts_from_after_the_pause(self) -> None:
        (found,) = ask(leaking(of("tensor", lambda step: step - (step > 5)), steps=20))
        assert found.step == 7

    def test_each_attempt_has_its_findings(self) -> None:
        job = leaking(of("tensor", lambda step: step), steps=18)
        job.ended_by_us().again()
        for _ in range(18):
            job.trains(1)
            job[0].writes("census", lines=[], rss=1, descriptors=1)
        assert [f.attempt for f in ask(job)] == [0]


class TestWhatIsCounted:
    @pytest.mark.parametrize("meter", ["variable", "tensor", "object"])
    def test_things_with_bytes_are_judged_by_their_bytes(self, meter: str) -> None:
        def same_number(step: int) -> dict[str, Any]:
            return {"meter": meter, "site": "a.py:1", "function": "f", "count": 1, "bytes": 2000 * step}

        (found,) = ask(leaking(same_number))
        assert found.evidence["grown"] == [
            {"meter": meter, "site": "a.py:1", "function": "f", "count_per_step": 0.0, "bytes_per_step": 2000}
        ]

    def test_other_things_are_judged_by_their_number(self) -> None:
        def more_bytes(step: int) -> dict[str, Any]:
            return {"meter": "thread", "site": "a.py:1", "function": "f", "count": 1, "bytes": 2000 * step}

        assert ask(leaking(more_bytes)) == []

    def test_objects_count_from_a_kibibyte_a_step(self) -> None:
        assert ask(leaking(of("object", lambda step: step, size=1023))) == []
        assert len(ask(leaking(of("object", lambda step: step, size=1024)))) == 1

    def test_tensors_count_from_64_bytes_a_step(self) -> None:
        assert ask(leaking(of("tensor", lambda step: step, size=63))) == []
        assert len(ask(leaking(of("tensor", lambda step: step, size=64)))) == 1

    def test_growths_stand_in_the_order_in_which_they_explain_each_other_and_larger_ones_first(self) -> None:
        lines = [
            of("tensor", lambda step: step, "small.py:1", 70),
            of("tensor", lambda step: step, "large.py:1", 90),
            of("descriptor", lambda step: step, "", 0, "socket"),
            of("graph", lambda step: step, "graph.py:1", 0),
            of("group", lambda step: step, "group.py:1", 0),
        ]
        (found,) = ask(leaking(*lines))
        assert found.places == (
            *("group.py:1 in forward", "graph.py:1 in forward", "large.py:1 in forward"),
            *("small.py:1 in forward", "socket"),
        )

    def test_the_rate_of_growth_is_the_mean_of_its_steps(self) -> None:
        job = leaking(of("tensor", lambda step: step * step)).ends_well()
        (growth,) = growths(job.history().ranks[0, 0])
        # From 9 things after step 3 to 400 after step 20.
        assert (growth.since, growth.steps) == (4, [*range(4, 21)])
        assert (growth.count, growth.size) == (23.0, 2300.0)


class TestWhatIsSaid:
    def test_all_evidence_of_a_leak(self) -> None:
        job = leaking(
            of("tensor", lambda step: 2 * step), of("descriptor", lambda step: step, "", 0, ""),
            ranks=2, limits={"bytes": 10_000, "descriptors": 100},
        )  # fmt: skip
        (found,) = ask(job)
        seconds = found.evidence["limits"][0]["seconds"]
        assert found.evidence == {
            **{"more": "2 tensors more (200 bytes of tensors)", "made": "made at net.py:7 in forward"},
            **{"site": "net.py:7", "function": "forward", "meter": "tensor", "suspect_step": 9, "sure_step": 17},
            "grown": [
                {**Key("tensor", "net.py:7", "forward")._asdict(), "count_per_step": 2.0, "bytes_per_step": 200},
                {**Key("descriptor", "", "")._asdict(), "count_per_step": 1.0, "bytes_per_step": 0},
            ],
            "limits": [
                {"of": "descriptors", "limit": 100, "per_step": 1, "step": 104, "seconds": seconds},
                {"of": "bytes", "limit": 10_000, "per_step": 400, "step": 40, "seconds": 0.4},
            ],
        }
        # A step of the golden clock takes 18 ms: so many events have both ranks.
        assert seconds == round(84 * 0.018, 1)
        assert (found.oracle, found.cause, found.ranks, found.attempt) == ("leak", "leak", (0, 1), 0)

    def test_the_time_to_a_limit_is_that_of_steps_and_not_of_censuses(self) -> None:
        job = leaking(of("tensor", lambda step: step), steps=51, limits={"bytes": 101_000}, uncounted=range(2, 36, 2))
        (found,) = ask(job)
        # Most censuses lie two steps apart, which take 17 ms of the golden clock; 1000 steps are left.
        assert [(one["step"], one["seconds"]) for one in found.evidence["limits"]] == [(1051, 8.5)]

    @pytest.mark.parametrize(
        ("line", "more"),
        [
            (of("tensor", lambda step: step), "1 tensor more (100 bytes of tensors)"),
            (of("thread", lambda step: step, size=0), "1 thread more"),
            (of("group", lambda step: 1500 * step, size=1), "1,500 process groups more (1,500 bytes)"),
            (of("thread", lambda step: step + step // 2, size=0), "1.5 threads more"),
        ],
    )
    def test_says_how_much_more_there_is(self, line: Line, more: str) -> None:
        assert ask(leaking(line, steps=21))[0].evidence["more"] == more

    def test_rates_are_told_with_two_decimals_and_bytes_as_whole_ones(self) -> None:
        (found,) = ask(leaking(of("thread", lambda step: 3 * step + step // 3, size=1), steps=21))
        # From 10 things after step 3 to 70 after step 21.
        assert found.evidence["grown"][0]["count_per_step"] == 3.33
        assert found.evidence["grown"][0]["bytes_per_step"] == 3

    def test_tensors_that_came_with_something_else_are_counted_with_it(self) -> None:
        job = leaking(
            of("group", lambda step: step, size=5),
            of("tensor", lambda step: step),
            of("tensor", lambda step: step, "b.py:1"),
        )
        assert ask(job)[0].evidence["more"] == "1 process group more (200 bytes of tensors)"

    def test_a_thing_without_a_line_is_told_by_its_function_or_else_by_its_kind(self) -> None:
        (found,) = ask(leaking(of("object", lambda step: step, "", 2000, "builtins.dict")))
        assert found.evidence["made"] == "builtins.dict"
        assert place(Key("graph", "", "")) == METERS["graph"][1] == "nodes of autograd's graph"

    @pytest.mark.parametrize(
        ("limits", "foreseen"),
        [(None, []), ({"bytes": 900}, []), ({"bytes": 1000}, []), ({"bytes": 1001}, [20]), ({"descriptors": 99}, [])],
    )
    def test_a_limit_that_is_not_known_or_was_passed_is_not_foreseen(self, limits: Any, foreseen: list[int]) -> None:
        (found,) = ask(leaking(of("tensor", lambda step: step), limits=limits))
        assert [limit["step"] for limit in found.evidence["limits"]] == foreseen

    def test_a_limit_is_none_where_nothing_is_known_of_what_is_used(self) -> None:
        job = leaking(of("descriptor", lambda step: step, size=0), rss=0, descriptors=0)
        assert ask(job)[0].evidence["limits"] == []
        job = leaking(of("descriptor", lambda step: step, size=0), limits={"descriptors": 99})
        for event in job[0]._events:
            event.pop("descriptors", None)  # type: ignore[typeddict-item]
        assert [limit["step"] for limit in ask(job)[0].evidence["limits"]] == [20 + 99]

    def test_the_limit_of_the_machine_is_that_of_all_its_ranks(self) -> None:
        job = leaking(of("tensor", lambda step: step), ranks=3, limits={"bytes": 5000}, rss=1500)
        job[2]._events = [e for e in job[2]._events if e["kind"] != "census"]
        (found,) = ask(job)
        assert found.evidence["limits"][0]["step"] == 20 + (5000 - 2 * 1500) // 200

    def test_graphs_of_other_tensors_than_those_that_are_kept_are_leaks_of_their_own(self) -> None:
        job = leaking(of("tensor", lambda step: step), of("graph", lambda step: step, "b.py:1", 0))
        assert [g["meter"] for g in ask(job)[0].evidence["grown"]] == ["graph", "tensor"]

    def test_findings_stand_by_step_and_rank(self) -> None:
        job = leaking(of("tensor", lambda step: step), steps=25, ranks=2)
        late = leaking(of("tensor", lambda step: max(8, step)), steps=25, ranks=2)
        job._all[0, 0] = late[0]
        assert [(f.step, f.ranks) for f in ask(job)] == [(4, (1,)), (9, (0,))]


def heap(*sizes: int) -> Golden:
    """Return a rank with these sizes of its heap, the last of which is that of step 60."""
    job = Golden(1)
    for step in range(1, 61):
        job.trains(1)
        back = 60 - step
        job[0].writes("heap", bytes=sizes[-1 - back] if back < len(sizes) else sizes[0])
    return job.ends_well()


class TestHeaps:
    def test_says_why_it_abstains(self) -> None:
        with pytest.raises(Abstain) as said:
            ask(Golden(1).trains(20), "native_leak")
        with pytest.raises(Abstain, match=r"^no heap was measured"):
            asking.ask("native_leak", History())
        assert str(said.value) == (
            "no heap was measured: this needs glibc 2.33 or newer, and a run without the oracle leak"
        )
        short = Golden(2)
        for step in range(59):
            short.trains(1)
            short[1].writes("heap", bytes=step)
        with pytest.raises(Abstain) as said:
            ask(short, "native_leak")
        assert str(said.value) == "59 steps are too few to tell a leak from a heap that moves: it takes 60"

    @pytest.mark.parametrize(("by", "leaks"), [(1024, True), (1023, False)])
    def test_a_kibibyte_a_step_is_a_leak(self, by: int, leaks: bool) -> None:
        assert bool(ask(heap(*(by * n for n in range(25))), "native_leak")) is leaks

    @pytest.mark.parametrize(("still", "leaks"), [(4, True), (5, False)])
    def test_growth_at_sixteen_of_twenty_steps_is_a_leak(self, still: int, leaks: bool) -> None:
        # It grew at the step before those, too.
        sizes = [-9000, 0]
        for n in range(20):
            sizes.append(sizes[-1] + (0 if n % 5 == 0 or (still == 5 and n == 1) else 9000))
        assert bool(ask(heap(*sizes), "native_leak")) is leaks

    def test_steps_before_the_last_twenty_do_not_count(self) -> None:
        job = Golden(1)
        size = 0
        for step in range(1, 81):
            job.trains(1)
            # It grows at 15 of the last 20 steps, and at each one before.
            size += 0 if step > 60 and step % 4 == 0 else 9000
            job[0].writes("heap", bytes=size)
        assert slope(job.ends_well().history().ranks[0, 0]) is None

    def test_names_all_ranks_that_grow_the_first_step_and_the_rate_in_the_median(self) -> None:
        job = Golden(3)
        for step in range(1, 64):
            job.trains(1)
            for one, by in zip(job.ranks, (0, 2000, 4000), strict=True):
                one.writes("heap", bytes=by * step)
        (found,) = ask(job, "native_leak")
        assert found == Finding("native_leak", "native leak", (1, 2), 44, 0, (), {"bytes_per_step": 3000})

    def test_a_rank_of_which_too_little_was_seen_does_not_grow(self) -> None:
        job = heap(*(9000 * n for n in range(25)))
        lived = job.history().ranks[0, 0]
        assert slope(lived) == 9000
        seen = [e for e in lived.events if e["kind"] == "heap"]
        for kept, known in ((21, True), (20, False)):
            assert (slope(type(lived)(0, 0, tuple(seen[-kept:]))) is not None) is known

    def test_steps_before_the_fortieth_are_not_judged(self) -> None:
        job = Golden(1)
        for step in range(1, 60):
            job.trains(1)
            job[0].writes("heap", bytes=9000 * step)
        assert slope(job.ends_well().history().ranks[0, 0]) is None
        job = Golden(1)
        for step in range(1, 61):
            job.trains(1)
            job[0].writes("heap", bytes=9000 * step)
        assert slope(job.ends_well().history().ranks[0, 0]) == 9000

    def test_a_later_attempt_is_named(self) -> None:
        job = Golden(1).trains(1)
        job[0].writes("heap", bytes=5)
        job.ended_by_us().again()
        for step in range(1, 62):
            job.trains(1)
            job[0].writes("heap", bytes=9000 * step)
        assert [(f.attempt, f.step) for f in ask(job, "native_leak")] == [(1, 42)]

    def test_each_attempt_is_judged_by_itself(self) -> None:
        job = heap(*(9000 * n for n in range(25))).again()
        for _ in range(5):
            job.trains(1)
            job[0].writes("heap", bytes=5)
        assert [(f.attempt, f.step) for f in ask(job, "native_leak")] == [(0, 41)]
