"""`CutFile` leaves a share of one file, and its witness tells the sizes."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from breakrank import faults
from breakrank.witnesses import Evidence
from breakrank.witnesses.data import ShorterFile
from breakrank_agent.kernel.rooted import WorkingFolder
from breakrank_agent.protocol.trigger import PlanError


@pytest.fixture
def target(tmp_path: Path) -> Any:
    """A rank, as a fault sees it, in a folder with two files of ten bytes."""
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(bytes(range(10)))

    def files() -> WorkingFolder:
        return WorkingFolder(0, str(tmp_path))

    return SimpleNamespace(work=tmp_path, files=files, seen=files)


@pytest.mark.parametrize("share", [1.0, -0.1])
def test_another_share_is_refused(share: float) -> None:
    with pytest.raises(PlanError, match=f"from 0 to below 1, not {share}"):
        faults.CutFile(share=share)


def test_the_last_file_of_a_pattern_is_cut_off(target: Any) -> None:
    faults.CutFile(path="*.png", share=0.35).strike(target)
    assert [(target.work / name).read_bytes() for name in ("a.png", "b.png")] == [bytes(range(10)), bytes(range(3))]


@pytest.mark.parametrize(("path", "said"), [
    ("c.png", "there is no c.png"),
    ("empty", "empty is no file, or has fewer bytes than 1"),
    ("linked", "linked has another name, too"),
])  # fmt: skip
def test_there_has_to_be_a_file_with_bytes_and_one_name(target: Any, path: str, said: str) -> None:
    (target.work / "empty").touch()
    os.link(target.work / "a.png", target.work / "linked")
    with pytest.raises(OSError, match=said):
        faults.CutFile(path=path).strike(target)


def test_the_witness_tells_both_sizes(target: Any) -> None:
    fault = faults.CutFile(path="*.png", share=0.5)
    before = ShorterFile().look(fault, target)
    assert before == {"a.png": 10, "b.png": 10}
    fault.strike(target)
    said = ShorterFile().judge(fault, Evidence(before=before, after=ShorterFile().look(fault, target)))
    assert said == "fstat: b.png has 5 bytes, and had 10"


@pytest.mark.parametrize("after", [{"a": 10, "b": 10}, {"a": 10, "b": 11}, {"a": 9, "b": 9}, {"a": 10}, None])
def test_files_that_are_as_they_were_or_longer_or_gone_are_no_proof(after: Any) -> None:
    assert ShorterFile().judge(faults.CutFile(), Evidence(before={"a": 10, "b": 10}, after=after)) is None
