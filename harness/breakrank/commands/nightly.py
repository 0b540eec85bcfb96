"""`breakrank nightly`: the catalogue, night by night."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "run the catalogue, and say what is worse than last night"


def add(parser: argparse.ArgumentParser) -> None:
    """Add what is run, and where what came of it is written."""
    add = parser.add_argument
    add("--scenario", action="append", metavar="NAME", help="only these (default: all); repeatable")
    add("--image", default="", metavar="REF", help="run the ranks in containers of this image")
    add("--budget", default="", metavar="TIME", help="start no case after so long, as 2h; the least known come first")
    add("--resume", action="store_true", help="go on with the last night, which was cut short, as it was begun")
    add("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder for the records")
    add(
        "-o", "--output", type=Path, metavar="DIR", help="folder for summary and page (nightly, in that of the records)"
    )
    add("more", nargs="*", metavar="-- WORD", help="further words for pytest, as in -- -n 4")


def run(options: argparse.Namespace) -> int:
    """Run a night; return 0, 1 if a case got worse, 2 if too little was tested, 3 for an error of our own."""
    from breakrank.cli.nightly import Wishes, nightly

    names = options.scenario or ["all"]
    return nightly(
        Wishes(names, options.image, options.budget, options.resume, options.runs, options.output, options.more)
    )
