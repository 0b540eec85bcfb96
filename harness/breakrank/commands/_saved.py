"""Commands about one saved run: how it is named, what is made of it, and how it is judged again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakrank.commands import say
from breakrank.files.bounded import plain

if TYPE_CHECKING:
    from breakrank.runs.saved_run import SavedRun


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a run."""
    words = "a run directory, or its name in the folder of the runs; left out, the latest run that went wrong"
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help=words)
    parser.add_argument("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder of the runs")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the form of a verdict."""
    parser.add_argument("--json", action="store_true", help="print the verdict as one JSON object")


def add_output(parser: argparse.ArgumentParser, suffix: str) -> None:
    """Add the file that is made of a run."""
    words = f"the file to write; left out, the name of the run with {suffix}, in this folder"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=words)


def written(options: argparse.Namespace, suffix: str, write: Callable[[Path, Path], object]) -> Path:
    """Make the file of the run that a person means, print its path, and return it. Raises `BreakrankError`."""
    from breakrank.runs.saved_run import limits

    folder = run_of(options)
    path: Path = options.output or Path(f"{folder.resolve().name}{suffix}")
    with limits(folder):
        write(folder, path)
    say(plain(str(path)))
    return path


def run_of(options: argparse.Namespace) -> Path:
    """Return the run directory that a person means. Raises `BreakrankError` where there is none."""
    from breakrank.runs.listing import find_run

    return find_run(options.run, options.runs)


def judge(saved: SavedRun, void: Sequence[str]) -> dict[str, Any]:
    """Judge a run; return the verdict in the form in which it is saved, with what was saved of its record."""
    from breakrank.runs.saved_run import judge_saved

    verdict: dict[str, Any] = json.loads(json.dumps(judge_saved(saved, void).to_json()))
    kept = {"record": None, "as_recorded": False, "seconds": 0.0}
    return {**verdict, **{name: (saved.verdict or kept).get(name, value) for name, value in kept.items()}}
