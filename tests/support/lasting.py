"""Parameters of tests that only `make soak` tries: what they show is shown by a quicker one in `make test`."""

from __future__ import annotations

from typing import Any

import pytest


def soak(*values: Any) -> Any:
    """Return the parameters of one test, marked for the soak."""
    return pytest.param(*values, marks=pytest.mark.soak)
