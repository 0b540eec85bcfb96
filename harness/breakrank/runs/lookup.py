"""Run directories that a person asks for: by path, by name, or the latest one that went wrong."""

from __future__ import annotations

import os
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder


def find_run(name: str, runs: Path) -> Path:
    """Return a run directory by its path, or by its name in the folder of the runs; without one, the latest failure.

    Raises `BreakrankError` where no run went wrong.
    """
    if name:
        inside = runs / name
        # Of `Path`, both would raise where a folder on the way may not be searched; who reads the run says so.
        return inside if not os.path.exists(name) and os.path.isdir(inside) else Path(name)
    ended = [(os.stat(found).st_mtime, found.parent) for found in runs.glob("*/verdict.json")]
    for _, folder in sorted(ended, reverse=True):
        verdict = Folder(folder).read_json("verdict.json")
        if isinstance(verdict, dict) and not verdict.get("as_recorded"):
            return folder
    if not ended:
        raise BreakrankError(f"there is no run in {runs}; name the folder of the runs by --runs")
    raise BreakrankError(f"no run in {runs} went wrong; name the one that you mean")
