"""A rank may belong to another user than its striker: its files stay its own, and its limits can be lowered."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from breakrank_agent.kernel import limits
from breakrank_agent.kernel.rooted import WorkingFolder, opened
from breakrank_agent.kernel.trees import Copying

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away; run the tests as root")
#: A user who is not root, as in a container of an engine without root.
OTHER = 54321


def owners(folder: Path) -> set[tuple[int, int]]:
    return {(found.stat().st_uid, found.stat().st_gid) for found in (folder, *folder.rglob("*"))}


def test_a_folder_that_a_fault_makes_belongs_to_whom_the_working_folder_belongs(tmp_path):
    os.chown(tmp_path, OTHER, OTHER)
    with WorkingFolder(0, str(tmp_path)) as files:
        os.close(files.make("checkpoints/last"))
    assert (tmp_path / "checkpoints/last").is_dir() and owners(tmp_path) == {(OTHER, OTHER)}


def test_what_is_copied_belongs_to_whom_it_belonged(tmp_path):
    (tmp_path / "old/deep").mkdir(parents=True)
    (tmp_path / "new").mkdir()
    (tmp_path / "old/deep/model.pt").write_text("weights")
    (tmp_path / "old/deep/model.pt").chmod(0o2660)
    os.mkfifo(tmp_path / "old/pipe", 0o660)
    (tmp_path / "old/pipe").chmod(0o660)
    for path in (tmp_path / "old", *(tmp_path / "old").rglob("*")):
        os.chown(path, OTHER, OTHER + 1)
    with opened(os.open(tmp_path / "old", os.O_RDONLY)) as old, opened(os.open(tmp_path / "new", os.O_RDONLY)) as new:
        copying = Copying(lambda path, why: pytest.fail(f"{path}: {why}"), whole=True)
        copying.copy(old, new)
        copying.dress(new, os.fstat(old))
    assert (tmp_path / "new/deep/model.pt").read_text() == "weights"
    assert owners(tmp_path / "new") == {(OTHER, OTHER + 1)}
    modes = {path.relative_to(tmp_path / "old"): path.stat().st_mode for path in (tmp_path / "old").rglob("*")}
    assert {path.relative_to(tmp_path / "new"): path.stat().st_mode for path in (tmp_path / "new").rglob("*")} == modes


@pytest.mark.parametrize("capable", [True, False])
def test_the_limits_of_somebody_elses_process_are_lowered_and_given_back(monkeypatch, capable):
    """Root without CAP_SYS_RESOURCE, as in most containers, has to become its user."""

    def refuse(*_):
        raise PermissionError("Operation not permitted")

    if not capable:
        monkeypatch.setattr(resource, "prlimit", refuse)
    with subprocess.Popen(["sleep", "60"], user=OTHER, group=OTHER, extra_groups=[]) as process:
        try:
            before = limits.soft_and_hard(process.pid, resource.RLIMIT_FSIZE)
            limits.set_soft_and_hard(process.pid, resource.RLIMIT_FSIZE, 4321, before[1])
            said = Path(f"/proc/{process.pid}/limits").read_text()
            assert limits.soft_and_hard(process.pid, resource.RLIMIT_FSIZE) == (4321, before[1])
            assert any(line.split()[:4] == ["Max", "file", "size", "4321"] for line in said.splitlines())
            limits.set_soft_and_hard(process.pid, resource.RLIMIT_FSIZE, *before)
            assert limits.soft_and_hard(process.pid, resource.RLIMIT_FSIZE) == before
        finally:
            process.kill()
