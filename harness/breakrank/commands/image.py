"""`breakrank image`: an image is validated by the catalogue."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "run the catalogue on two images, and say what got better or worse"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the two images, and what is run on them."""
    add = parser.add_argument
    add("new", metavar="NEW", help="the image to validate")
    add("--against", required=True, metavar="OLD", help="the last good image")
    add("--scenario", action="append", metavar="NAME", help="only these (default: all); repeatable")
    add("--seed", type=int, default=0, metavar="N", help="seed of all chance (0)")
    add("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder for the records")
    add("-o", "--output", type=Path, metavar="SITE", help="folder for the page (image, in that of the records)")


def run(options: argparse.Namespace) -> int:
    """Run the catalogue on both images; return 0, 1 if something got worse, 2 if too much was not tested."""
    from breakrank.cli.images import Validation, validate

    runs = options.runs.absolute()
    site = options.output or runs / "image"
    return validate(Validation(options.new, options.against, options.scenario or ["all"], options.seed, runs, site))
