"""The variables of a loop around a call: read without a trace in the program that has them."""

from __future__ import annotations

import weakref
from pathlib import Path

from breakrank_agent.agent.call_sites import Sites
from breakrank_agent.hooks.torch.loop_variables import LoopVariables

LOOPS = LoopVariables(Sites(str(Path(__file__).parent)))


def said_here() -> str:
    """Return what a hook that is called from a line of the program is told."""
    return LOOPS.here()


class Wrapper:
    """A thing that must be gone when the program deletes it, such as a wrapper that has a process group."""


def test_the_variables_of_all_loops_around_a_line_are_named() -> None:
    said = []
    for epoch in range(2):
        for name in ("up", "down"):
            said.append((said_here(), f"epoch {epoch}, name {name}"))
    assert len(said) == 4 and all(told == expected for told, expected in said)


def test_a_variable_that_was_looked_at_is_gone_once_the_program_deletes_it() -> None:
    wrapper = Wrapper()
    alive = weakref.ref(wrapper)
    for number in range(2):
        assert said_here() == f"number {number}"
    del wrapper
    assert alive() is None


def test_variables_that_the_program_has_copied_by_itself_stay_in_its_copy() -> None:
    setting = 3
    copied = locals()
    for number in range(2):
        assert said_here() == f"number {number}"
    assert (copied["setting"], setting) == (3, 3)
