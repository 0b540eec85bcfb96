"""The steps that are digested: all, none, or ever fewer."""

from __future__ import annotations

from breakrank_agent.protocol.sampling import FIRST, is_digested


def _digested(last: int, closely: tuple[int, ...] = ()) -> list[int]:
    return [step for step in range(1, last + 1) if is_digested(step, "sparse", closely)]


def test_the_first_steps_are_all_digested_and_then_ever_fewer():
    found = _digested(4096)
    assert found[:FIRST] == list(range(1, FIRST + 1))
    halves = [sum(start < step <= 2 * start for step in found) for start in (8, 16, 64, 1024, 2048)]
    assert max(halves) <= FIRST and min(halves) >= FIRST // 2


def test_steps_far_from_the_first_have_a_neighbour():
    found = set(_digested(1000))
    assert all(step - 1 in found or step + 1 in found for step in found)


def test_a_stretch_that_is_looked_at_closely_is_digested_whole():
    assert set(range(100, 121)) <= set(_digested(200, (100, 120)))
    assert 99 not in _digested(200, (100, 120))


def test_every_step_or_none_is_digested():
    assert all(is_digested(step, "every") for step in range(1, 100))
    assert not any(is_digested(step, "none", (1, 100)) for step in range(1, 100))
