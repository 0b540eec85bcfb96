"""Two hundred healthy jobs, drawn by their seeds, of which nothing may be said; two thousand are in the soak."""

from __future__ import annotations

import pytest
from support.healthy_runs import objections


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_objected_to_in_a_healthy_job(bench, part):
    assert objections(bench, range(50 * part, 50 * part + 50)) == []
