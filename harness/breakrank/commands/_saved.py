"""Commands about one saved run: how it is named, and how it is judged again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from breakrank.runs.saved_run import SavedRun


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a run."""
    words = "a run directory, or its name in the folder of the runs; left out, the latest run that went wrong"
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help=words)
    parser.add_argument("--json", action="store_true", help="print the verdict as one JSON object")
    parser.add_argument("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder of the runs")


def run_of(options: argparse.Namespace) -> Path:
    """Return the run directory that a person means. Raises `BreakrankError` where there is none."""
    from breakrank.runs.lookup import find_run

    return find_run(options.run, options.runs)


def judge(saved: SavedRun, void: Sequence[str]) -> dict[str, Any]:
    """Judge a run; return the verdict in the form in which it is saved, with what was saved of its record."""
    from breakrank.runs.saved_run import judge_saved

    verdict: dict[str, Any] = json.loads(json.dumps(judge_saved(saved, void).to_json()))
    kept = {"record": None, "as_recorded": False, "seconds": 0.0}
    return {**verdict, **{name: (saved.verdict or kept).get(name, value) for name, value in kept.items()}}
