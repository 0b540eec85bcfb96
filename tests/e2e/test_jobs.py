"""Three scripts in the styles that people use, under each launcher that is here, through five scenarios."""

from __future__ import annotations

import pytest
from support import jobs
from support.lasting import soak

#: The launchers whose rows `make soak` runs, with the whole table. Ranks of our own and of torchrun are shown by
#: `test_scripts.py` and `test_join.py`, too; the others take longest.
LASTING = ("ranks", "torchrun", "mpirun", "shell", "spawn")


def marked(rows):
    """Return the rows, some of which the soak alone runs."""
    return [soak(row) if row.launcher in LASTING else row for row in rows]


@pytest.mark.parametrize("row", marked(jobs.here(jobs.COVERING)), ids="-".join)
def test_a_script_gets_the_verdict_that_is_known_of_it(bench, tmp_path, monkeypatch, row):
    jobs.assert_known(bench, row, tmp_path, monkeypatch)


def test_the_covering_rows_cover():
    for field in ("launcher", "script", "scenario"):
        covered = {getattr(row, field) for row in jobs.COVERING}
        assert covered == {getattr(row, field) for row in jobs.TABLE} - jobs.ELSEWHERE
