"""The private view of the user's folder: every run starts from the same files, and the folder is untouched.

An overlay in a mount namespace of its own where the kernel allows one (the script then sees the same path as ever),
else a copy up to a stated size. What the run writes is kept in the run directory, in `work`.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.runners import holder
from breakrank.session import Session

#: The most that is copied where there is no overlay.
COPY_MB = 1024


@dataclass(frozen=True)
class View:
    """Where the ranks run: their folder, and the process whose namespaces they join (0: none)."""

    folder: Path
    holder: int = 0
    note: str = ""

    @property
    def seen_from_outside(self) -> Path:
        """The folder with what the ranks have written, for whoever is not in the view."""
        return Path(f"/proc/{self.holder}/root{self.folder}") if self.holder else self.folder


def make_view(session: Session, folder: Path, work: Path, runs: Path) -> View:
    """Return a private view of `folder` that keeps in `work` what is written; `runs` stays as it is.

    Raises `BreakrankError` if there is neither an overlay nor room for a copy.
    """
    scratch = work.with_name("work.overlay")
    scratch.mkdir()
    reader, writer = os.pipe()
    try:
        null = os.open(os.devnull, os.O_RDWR)
        command = [sys.executable, "-I", "-S", holder.__file__, str(folder), str(work), str(scratch), str(runs)]
        pid = session.spawn(command, {"PATH": os.environ.get("PATH", "")}, Path("/"), [null, writer, null])
        os.close(null)
    finally:
        os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.readline().strip()
    if said == "ready":
        return View(folder, pid)
    shutil.rmtree(scratch, ignore_errors=True)
    why = said or "the process that holds it died"
    copy_folder(folder, work, runs, f"no overlay: {why}")
    return View(work, 0, f"no overlay here ({why}): the script runs in a copy of its folder")


def copy_folder(folder: Path, work: Path, runs: Path, why: str) -> None:
    """Copy `folder`, without `runs`, into `work`. Raises `BreakrankError` if it is too large, with the reason `why`."""
    size = sum(p.lstat().st_size for p in folder.rglob("*") if runs not in p.parents and not p.is_dir())
    if size > COPY_MB * 1_000_000:
        raise BreakrankError(
            f"{folder} cannot be kept untouched ({why}): {size // 1_000_000} MB are more than the {COPY_MB} MB that "
            "would be copied; run from a smaller folder, or with --scenario-in-place"
        )
    shutil.copytree(
        folder,
        work,
        symlinks=True,
        dirs_exist_ok=True,
        ignore=lambda where, names: [n for n in names if Path(where, n) == runs],
    )
