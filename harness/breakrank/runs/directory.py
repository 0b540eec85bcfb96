"""Run directories: one is made for each run, and filled with its plan, what it runs on, and the data it works on."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import time
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.files.disk_space import keep_room, unwritable
from breakrank.files.private import make_private
from breakrank.runners import find_runner
from breakrank.runners.kind import installed_version
from breakrank.runs.provenance import MARK, mark, read_meta
from breakrank_agent.plan import Plan


def fill(folder: Path, plan: Plan, programs: Path, keep: bool = False) -> Path:
    """Make a run directory: the plan, what it runs on, the working folder with its data, and room for the verdict.

    Room for a verdict is kept if it is to `keep` some. Raises `FileExistsError` for a folder that is there already, and
    `BreakrankError`.
    """
    from breakrank.fixtures.data import lay

    try:
        make_private(folder)
        _write_plan(folder, plan)
        _write_meta(folder, _meta(plan, programs))
        (folder / "work").mkdir()
        # Nothing has happened yet; where the control fails, nothing ever does.
        (folder / "conductor.jsonl").touch()
        if keep:
            keep_room(folder)
        lay(plan.data, folder / "work", plan.seed, plan.ranks * plan.merged)
    except FileExistsError:
        raise
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise unwritable(f"cannot write the run directory {folder.name}", folder.parent, error) from None
    return folder


def replace_plan(folder: Path, plan: Plan) -> None:
    """Write another plan into a run directory, now that more is known, and mark it as ours."""
    _write_plan(folder, plan)
    meta = read_meta(folder)
    _write_meta(folder, {**meta, MARK: mark(plan.dumps(), meta["programs"])})


def _write_plan(folder: Path, plan: Plan) -> None:
    """Write `plan.json` whole or not at all: whoever starts a run can be killed at any moment."""
    new = folder / "plan.json.new"
    new.write_text(plan.dumps())
    new.replace(folder / "plan.json")


def _write_meta(folder: Path, meta: dict[str, Any]) -> None:
    new = folder / "meta.json.new"
    try:
        new.write_text(json.dumps(meta, indent=1) + "\n")
        new.replace(folder / "meta.json")
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _meta(plan: Plan, programs: Path) -> dict[str, Any]:
    return {
        "version": 1,
        MARK: mark(plan.dumps(), str(programs)),
        "breakrank": installed_version("pytest-breakrank"),
        **find_runner(plan.runner).software(plan),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "plan": plan.key(),
        "programs": str(programs),
        "clock": {"began": _clocks()},
    }


def note_end(folder: Path) -> None:
    """Note the end of a run by both clocks: events have the machine's monotonic one, logs of other programs do not.

    If it finds no room, the run lacks it.
    """
    with contextlib.suppress(OSError, BreakrankError):
        meta = read_meta(folder)
        if isinstance(meta.get("clock"), dict):
            _write_meta(folder, {**meta, "clock": {**meta["clock"], "ended": _clocks()}})


def _clocks() -> dict[str, float]:
    return {"monotonic": round(time.monotonic(), 6), "unix": round(time.time(), 6)}
