"""The leak oracles on golden histories: growth at every step is found and named, growth that stops is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import asking
from support.golden import Golden

from breakrank.oracles import Abstain
from breakrank.report.drawing import draw_growth
from breakrank.verdict import Blame, Finding, Outcome, Verdict

STEPS = 20
Amount = Callable[[int], int]


def line(meter: str, site: str, count: int, size: int = 0, function: str = "forward") -> dict[str, Any]:
    return {"meter": meter, "site": site, "function": function, "count": count, "bytes": size}


def censuses(*lines: Callable[[int], dict[str, Any]], steps: int = STEPS, only: int | None = None) -> Golden:
    """Return a job of two ranks with a census after each step, of `lines` on every rank or one, else of nothing."""
    job = Golden()
    for step in range(1, steps + 1):
        job.trains(1)
        for one in job.ranks:
            shown = [make(step) for make in lines] if only in (None, one.rank) else []
            values = {"bytes": sum(li["bytes"] for li in shown), "descriptors": 16, "threads": 4, "rss": 1000, "ms": 1}
            limits = {"limits": {"bytes": 1_000_000, "descriptors": 1024}} if step == 1 else {}
            one.writes("census", lines=shown, **values, **limits)
    return job.ends_well()


def tensors(amount: Amount, site: str = "net.py:7") -> Callable[[int], dict[str, Any]]:
    """Return the line of tensors of 100 bytes, `amount(step)` of them."""
    return lambda step: line("tensor", site, amount(step), 100 * amount(step))


def ask(job: Golden, oracle: str = "leak") -> list[Finding]:
    return asking.ask(oracle, job.history(), steps=STEPS)


def test_what_grows_at_every_step_is_named_with_line_ranks_first_step_and_amount() -> None:
    (found,) = ask(censuses(tensors(lambda step: 2 * step)))
    assert (found.cause, found.ranks, found.step, found.places) == ("leak", (0, 1), 4, ("net.py:7 in forward",))
    assert found.sentence() == (
        "at each step from step 4 on, ranks 0 and 1 kept 2 tensors more (200 bytes of tensors), "
        "made at net.py:7 in forward"
    )
    assert (found.evidence["suspect_step"], found.evidence["sure_step"]) == (9, 17)


def test_only_the_rank_that_leaks_is_named() -> None:
    (found,) = ask(censuses(tensors(lambda step: step), only=1))
    assert found.ranks == (1,)


def test_ranks_on_which_something_else_grows_have_findings_of_their_own() -> None:
    job, other = censuses(tensors(lambda step: step), only=0), censuses(tensors(lambda step: step, "a.py:1"), only=1)
    job._all[0, 1] = other[1]
    assert [(f.ranks, f.places) for f in ask(job)] == [((0,), ("net.py:7 in forward",)), ((1,), ("a.py:1 in forward",))]


@pytest.mark.parametrize("amount", [
    pytest.param(lambda step: 5, id="what was there before"),
    pytest.param(lambda step: min(step, 3), id="optimizer state, moving average"),
    pytest.param(lambda step: min(step, 7), id="cache of 7"),
    pytest.param(lambda step: min(step, 12), id="cache of 12"),
    pytest.param(lambda step: min(step, 19), id="cache that is full just before the end"),
    pytest.param(lambda step: step * 37 % 101, id="varying shapes"),
    pytest.param(lambda step: step % 5, id="list that is cleared"),
    pytest.param(lambda step: STEPS - step, id="shrinks"),
    pytest.param(lambda step: 0 if step < 10 else 10**6, id="large, allocated once"),
])  # fmt: skip
def test_what_stops_growing_is_left_alone(amount: Amount) -> None:
    assert ask(censuses(tensors(amount))) == []


def test_a_leak_that_begins_late_is_found_from_where_it_begins() -> None:
    (found,) = ask(censuses(tensors(lambda step: max(5, step)), steps=30))
    assert found.step == 6


@pytest.mark.parametrize("meter", ["group", "thread", "descriptor", "function", "graph", "native thread"])
def test_every_meter_counts(meter: str) -> None:
    (found,) = ask(censuses(lambda step: line(meter, "a.py:1", step)))
    assert found.evidence["meter"] == meter
    assert " 1 " in found.sentence() and "unknown" not in found.sentence()


def test_small_objects_are_no_leak_and_large_ones_are() -> None:
    assert ask(censuses(lambda step: line("object", "", step, 200 * step, "builtins.dict"))) == []
    (found,) = ask(censuses(lambda step: line("object", "", step, 2000 * step, "builtins.bytearray")))
    assert found.places == ("builtins.bytearray",)


def test_losses_kept_for_a_plot_are_no_leak_unless_their_graphs_are_kept_with_them() -> None:
    def losses(step: int) -> dict[str, Any]:
        return line("tensor", "train.py:9", step, 4 * step)

    assert ask(censuses(losses)) == []
    (found,) = ask(censuses(losses, lambda step: line("graph", "train.py:9", step)))
    assert found.evidence["meter"] == "graph"


def test_what_explains_the_others_is_said_first() -> None:
    job = censuses(
        tensors(lambda step: step),
        lambda step: line("native thread", "", 3 * step, function=""),
        lambda step: line("descriptor", "", 5 * step, function="socket"),
        lambda step: line("group", "train.py:9", step),
    )
    (found,) = ask(job)
    assert found.places == (
        "train.py:9 in forward", "net.py:7 in forward", "socket", "threads of no Python code",
    )  # fmt: skip


def threads(name: str) -> Callable[[int], dict[str, Any]]:
    return lambda step: line("native thread", "", 2 * step, function=name)


def test_threads_of_no_python_code_are_named() -> None:
    (found,) = ask(censuses(threads("pt_autograd_N")))
    assert found.places == ("threads named pt_autograd_N",)
    assert "2 threads of no Python code more, threads named pt_autograd_N" in found.sentence()


@pytest.mark.parametrize(("backend", "name", "ends"), [
    ("grpc", "collective_ops (asleep)", True),
    ("grpc", "collective_ops", False),
    ("gloo", "collective_ops (asleep)", False),
])  # fmt: skip
def test_threads_that_sleep_for_as_long_as_a_collective_may_take_end(backend: str, name: str, ends: bool) -> None:
    job = censuses(threads(name))
    for one in job.ranks:
        one.writes("group", group="0", ranks=[0, 1], backend=backend, timeout_s=None)
    assert [f.places for f in ask(job)] == ([] if ends else [(f"threads named {name}",)])


def test_the_graph_of_a_tensor_that_is_kept_itself_is_no_second_leak() -> None:
    (found,) = ask(censuses(tensors(lambda step: step), lambda step: line("graph", "net.py:7", 3 * step)))
    assert [g["meter"] for g in found.evidence["grown"]] == ["tensor"]


def test_a_limit_is_foreseen_for_all_leaking_ranks_together() -> None:
    (found,) = ask(censuses(tensors(lambda step: step)))
    (limit,) = found.evidence["limits"]
    # Both ranks hold 1,000 bytes and take 100 more a step each, of 1,000,000.
    assert (limit["of"], limit["step"]) == ("bytes", 20 + (1_000_000 - 2000) // 200)
    (found,) = ask(censuses(lambda step: line("descriptor", "a.py:1", step)))
    assert [(li["of"], li["step"]) for li in found.evidence["limits"]] == [("descriptors", 20 + 1024 - 16)]


def test_it_abstains_without_a_census() -> None:
    with pytest.raises(Abstain, match="no census"):
        ask(Golden().trains(STEPS).ends_well())


def test_too_few_steps_are_no_verdict_and_name_what_is_suspect() -> None:
    with pytest.raises(Abstain, match=r"12 steps are too few .* suspect are net.py:7 in forward of rank 0"):
        ask(censuses(tensors(lambda step: step), steps=12))
    with pytest.raises(Abstain) as reason:
        ask(censuses(tensors(lambda step: min(step, 7)), steps=12))
    assert "suspect" not in str(reason.value)


def heaps(amount: Amount, steps: int = 60) -> Golden:
    """Return a job whose rank 1 has a heap of `amount(step)` bytes after each step."""
    job = Golden()
    for step in range(1, steps + 1):
        job.trains(1)
        job[0].writes("heap", bytes=10**6)
        job[1].writes("heap", bytes=amount(step))
    return job.ends_well()


def test_a_heap_that_grows_with_noise_is_found() -> None:
    (found,) = ask(heaps(lambda step: 10**6 + 9000 * step + step * 7919 % 3001), "native_leak")
    assert (found.cause, found.ranks, found.step) == ("native leak", (1,), 41)
    assert 8900 < found.evidence["bytes_per_step"] < 9100 and "unknown" not in found.sentence()


@pytest.mark.parametrize("amount", [
    pytest.param(lambda step: 10**6 + step * 7919 % 3001, id="noise"),
    pytest.param(lambda step: 10**6 + 3000 * min(step, 40), id="fills until step 40"),
    pytest.param(lambda step: 10**6 + (10**6 if step > 50 else 0), id="jumps once"),
    pytest.param(lambda step: 10**6 + 200 * step, id="grows by less than 1 KiB"),
])  # fmt: skip
def test_a_heap_that_settles_is_left_alone(amount: Amount) -> None:
    assert ask(heaps(amount), "native_leak") == []


def test_the_heap_is_not_judged_unless_it_was_measured_for_long_enough() -> None:
    with pytest.raises(Abstain, match="no heap was measured"):
        ask(Golden().trains(STEPS).ends_well(), "native_leak")
    with pytest.raises(Abstain, match="20 steps are too few"):
        ask(heaps(lambda step: 9000 * step, steps=20), "native_leak")


def chart(job: Golden, oracle: str = "leak") -> list[str]:
    verdict = Verdict(Outcome.SILENT, tuple(ask(job, oracle)), blame=Blame())
    return draw_growth(job.history(), verdict.to_json())


def test_the_chart_shows_the_bytes_of_every_rank_and_when_the_machine_is_full() -> None:
    lines = chart(censuses(tensors(lambda step: step), only=1))
    assert lines[:2] == [
        "rank 0  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  0 bytes to 0 bytes",
        "rank 1  ▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇█  100 bytes to 2.0 KiB",
    ]
    assert lines[2].startswith("at this rate the 976.6 KiB of the machine are reached at step 10,000, ")


def test_the_chart_shows_numbers_of_what_has_no_bytes() -> None:
    lines = chart(censuses(lambda step: line("group", "train.py:9", step)))
    assert lines[0].endswith("  1 (group) to 20 (group)")


def test_the_chart_of_a_heap_is_drawn_from_its_lowest_to_its_highest() -> None:
    line = chart(heaps(lambda step: 10**6 + 9000 * step), "native_leak")[1]
    assert line.startswith("rank 1  ▁") and line.endswith("█  985.4 KiB to 1.5 MiB")


def test_nothing_is_drawn_without_a_leak() -> None:
    assert chart(censuses(tensors(lambda step: 5))) == []
