"""`breakrank watch`: a job is run as it is, and looked at."""

from __future__ import annotations

import argparse
from pathlib import Path

from breakrank.errors import BreakrankError

HELP = "run a job as it is, and say who is to blame when it goes wrong"


def add(parser: argparse.ArgumentParser) -> None:
    """Add what is looked at, and the job."""
    add = parser.add_argument
    add("--stall", type=float, default=60.0, metavar="S", help="seconds without a new point (60)")
    add("--end-stalled", action="store_true", help="end a job that stands still (exit code 124)")
    add("--drift", action="store_true", help="compare the ranks' parameters at each step")
    add("--leaks", action="store_true", help="count what stays alive at each step")
    add("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder for the records")
    add("job", nargs=argparse.REMAINDER, metavar="CMD", help="the job, as in torchrun train.py")


def run(options: argparse.Namespace) -> int:
    """Run a job and watch it; return its own exit code."""
    from breakrank.cli.watch import Wishes, watch

    if not options.job:
        raise BreakrankError("watch needs a job, as in python -m breakrank watch torchrun train.py")
    wishes = Wishes(options.stall, options.end_stalled, options.drift, options.leaks)
    return watch(options.job, options.runs, wishes)
