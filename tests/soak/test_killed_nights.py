"""A night that is killed at any moment is gone on with: no case is run twice, and none is left out."""

from __future__ import annotations

import pytest
from support.killed_night import MOMENTS
from support.nights import resumed

pytestmark = pytest.mark.soak

#: The results that the night has at each moment.
WRITTEN = {"configure 1": 0, "collected 1": 0, "running 2": 1, "again 2": 1, "logreport 3": 3, "unconfigure 1": 4}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_night_is_gone_on_with(tmp_path, moment):
    before, rest, memory = resumed(tmp_path, moment)
    assert len(before) == WRITTEN[moment]
    assert rest.returncode == 1, rest.stdout + rest.stderr
    entries = memory.entries[2]
    assert sorted(entry.name for entry in entries) == ["small::c0", "small::c1", "small::c2", "small::turned"]
    assert [entry.name for entry in entries[: len(before)]] == before
    (turned,) = [entry for entry in entries if entry.case == "turned"]
    assert [one.outcome for one in (turned, *turned.again)] == ["SILENT"] * 3
    assert [session.exit for session in memory.sessions] == [0, 1]
