"""The boundary to pytest: our errors become usage errors of one line, and never tracebacks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from breakrank.errors import BreakrankError
from breakrank_agent.protocol.log import HistoryError
from breakrank_agent.protocol.trigger import PlanError

#: Everything of ours that a person can mend.
OUR_ERRORS = (BreakrankError, PlanError, HistoryError)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn our errors into `pytest.UsageError`: exit code 4."""
    try:
        yield
    except OUR_ERRORS as error:
        raise pytest.UsageError(f"breakrank: {one_line(error)}") from None


def one_line(error: BaseException | str) -> str:
    """Return an error's message, or a text, on one line."""
    return " ".join(str(error).split())
