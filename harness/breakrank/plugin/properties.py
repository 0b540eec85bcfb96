"""Properties of a test: what a run came to, as it reaches the xdist controller, JUnit's file and other readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from breakrank.report import compare

if TYPE_CHECKING:
    from breakrank.runs.result import Result


def tell(item: pytest.Item, **properties: object) -> None:
    """Attach data to the report of a test; a later value replaces an earlier one."""
    kept = [(name, value) for name, value in item.user_properties if name not in properties]
    item.user_properties[:] = [*kept, *((name, text_of(value)) for name, value in properties.items())]


def add(item: pytest.Item, **properties: object) -> None:
    """Attach data beside what is there: a test may launch several jobs."""
    item.user_properties.extend((name, text_of(value)) for name, value in properties.items())


def text_of(value: object) -> str:
    """Return a value as a property has it."""
    words = {True: "true", False: "false", None: ""}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def of_result(result: Result) -> dict[str, object]:
    """Return what a run came to."""
    verdict = result.verdict
    return {
        "outcome": verdict.outcome,
        "seed": result.plan.seed,
        "digest": verdict.digest,
        "blame": verdict.blame.words(),
        "run_directory": result.folder,
        "sentence": verdict.sentence(),
        "also": compare.also(verdict),
        "finding": compare.finding(verdict),
        "recorded": result.record.words() if result.record is not None else "",
        "as_recorded": result.as_recorded if result.record is not None else None,
        "seconds": f"{result.seconds:.2f}",
    }
