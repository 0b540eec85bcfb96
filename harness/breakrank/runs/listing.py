"""The run directories of a folder: each with its case and its verdict, and the one that a person means."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder
from breakrank.runs.retention import is_held

_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Listed:
    """One run directory. `outcome` is empty where there is no verdict: `state` says why."""

    name: str
    ended: float
    scenario: str = ""
    case: str = ""
    seed: int = 0
    outcome: str = ""
    finding: str = ""
    sentence: str = ""
    record: str = ""
    as_recorded: bool | None = None
    seconds: float = 0.0
    digest: str = ""
    state: str = ""

    @property
    def failed(self) -> bool:
        """True if the run was judged, and its verdict does not say that it is as it should be."""
        return bool(self.outcome) and self.as_recorded is not True


def listed(runs: Path) -> list[Listed]:
    """Return the run directories in a folder, the newest first. Raises `BreakrankError` if there is no such folder."""
    if not runs.is_dir():
        raise BreakrankError(f"there is no folder {runs}; name the folder of the runs by --runs")
    with os.scandir(runs) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    found = [one for one in map(_look, folders) if one is not None]
    return sorted(found, key=lambda one: (one.ended, one.name), reverse=True)


def find_run(name: str, runs: Path) -> Path:
    """Return a run directory by its path, or by its name in the folder of the runs; without one, the latest failure.

    Raises `BreakrankError` where no run went wrong.
    """
    if name:
        inside = runs / name
        # Of `Path`, both would raise where a folder on the way may not be searched; who reads the run says so.
        return inside if not os.path.exists(name) and os.path.isdir(inside) else Path(name)
    found = listed(runs)
    if not found:
        raise BreakrankError(f"there is no run in {runs}; name the folder of the runs by --runs")
    wrong = [one for one in found if one.failed]
    if not wrong:
        raise BreakrankError(f"no run in {runs} went wrong; name the one that you mean")
    return runs / wrong[0].name


def _look(folder: Path) -> Listed | None:
    """Return what is in a folder; None where that is no run directory."""
    place = Folder(folder)
    try:
        if "plan.json" not in place.names():
            return None
        plan, verdict = _object(place, "plan.json"), _object(place, "verdict.json")
        name = "verdict.json" if verdict else "plan.json"
        ended = os.lstat(folder / name).st_mtime
    except (BreakrankError, OSError):
        return Listed(folder.name, _time(folder), state="damaged")
    scenario, case = (str(plan.get(name, "")) for name in ("scenario", "case"))
    if not verdict:
        state = "running" if is_held(folder) else "cut short"
        return Listed(folder.name, ended, scenario, case, _whole(plan.get("seed")), state=state)
    held = verdict.get("as_recorded")
    return Listed(
        folder.name,
        ended,
        scenario,
        case,
        _whole(plan.get("seed")),
        *(str(verdict.get("outcome", "")), first_finding(verdict), str(verdict.get("sentence", ""))),
        str(verdict.get("record") or ""),
        held if isinstance(held, bool) else None,
        _seconds(verdict.get("seconds")),
        str(verdict.get("digest", "")),
    )


def first_finding(verdict: dict[str, Any]) -> str:
    """Return the oracle and the cause of a saved verdict's first finding; empty where there is none."""
    findings = verdict.get("findings")
    first = findings[0] if isinstance(findings, list) and findings else None
    return f"{first.get('oracle')}: {first.get('cause')}" if isinstance(first, dict) else ""


def _object(place: Folder, name: str) -> dict[str, Any]:
    found = place.read_json(name, _MOST_BYTES)
    if found is not None and not isinstance(found, dict):
        raise BreakrankError(f"{place.path / name} is damaged: it is no object")
    return found or {}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _time(folder: Path) -> float:
    try:
        return folder.lstat().st_mtime
    except OSError:
        return 0.0
