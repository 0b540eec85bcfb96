"""Saves that a later attempt restores: known by their digest, by their path, or by the name that they got then."""

from __future__ import annotations

from signal import SIGKILL

import pytest
from support.golden import Golden

from breakrank.analysis.lineage import Stretch, lineage


def resumed(saved: str | None, *renames: str, restored: str | None = "f", path: str = "last.pt") -> list[Stretch]:
    """Return the lineage of rank 0, which saved after two steps, renamed the file, was killed, and restored one."""
    job = Golden().trains(2)
    job[0].enters("save", path="new.tmp")
    job[0].writes("payload", of="save", path="new.tmp", file=saved, size=10, done=2)
    for name in renames:
        job[0].enters("write", path=name, how="rename")
    job.trains(1)[0].dies(SIGKILL)
    job.ended_by_us().again()
    job[0].enters("restore", path=path).writes("payload", of="restore", path=path, file=restored, size=10)
    return lineage(job.trains(1).ends_well().history(), 1, 0)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(resumed("f"), id="by its digest"),
        pytest.param(resumed(None, path="new.tmp"), id="by its path if its digest is missing"),
        pytest.param(resumed("f", path="new.tmp", restored=None), id="by its path if the other digest is missing"),
        pytest.param(resumed(None, "last.pt"), id="by the name that it got"),
    ],
)
def test_a_save_is_known(found):
    assert found == [Stretch(0, 2)]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(resumed("g", "last.pt"), id="another digest under its name"),
        pytest.param(resumed(None), id="another path"),
        pytest.param(resumed(None, "other.pt", "last.pt"), id="the name of a later rename"),
    ],
)
def test_another_file_is_not(found):
    assert found == []
