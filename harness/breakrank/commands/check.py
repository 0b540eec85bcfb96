"""`breakrank check`: a script that nobody has struck is run three times, and judged."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

HELP = "run a script three times undisturbed, and say what is wrong with it"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the settings of a check-up, and the script."""
    add = parser.add_argument
    add("--ranks", default="", metavar="N", help="number of ranks (2), unless a launcher starts them")
    add("--steps", default="", metavar="N", help="end each run after N steps")
    add("--step", default="", metavar="MODULE:FUNCTION", help="the function whose return ends a step")
    add("--framework", default="", metavar="NAME", help="torch or tensorflow, if it imports both")
    add("--reference", default="", metavar="CMD", help="the same training as one rank")
    words = "kill all ranks in the middle, and go on by CMD (--resume= by the same command)"
    add("--resume", metavar="CMD", help=words)
    words = "parameters that ranks mean to have each for itself, as in 'experts.*,head.*'"
    add("--apart", default="", metavar="NAMES", help=words)
    add("--budget", default="", metavar="S", help="seconds of the whole: runs end early, after a step")
    add("--deadline", default="", metavar="S", help="seconds without a move that are a hang (300)")
    add("--json", action="store_true", help="print one JSON object in place of the sheet")
    add("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder for the records")
    add("job", nargs=argparse.REMAINDER, metavar="CMD", help="a script, or a job as torchrun train.py")


def run(options: argparse.Namespace) -> int:
    """Check a script; return 0, 1 if something is wrong, 2 if too little was seen."""
    from breakrank.cli.check import Wishes, check

    wishes = Wishes(**{field.name: getattr(options, field.name) for field in fields(Wishes)})
    return check(options.job, options.runs, wishes, options.json)
