"""`breakrank report`: the history of a folder as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from breakrank.commands import say
from breakrank.files.bounded import plain

HELP = "write the matrix of scenarios, cases and sessions as a page"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the history, and the folder of the page."""
    words = "folder of the runs, or a history.sqlite (.breakrank)"
    parser.add_argument("place", nargs="?", type=Path, default=Path(".breakrank"), metavar="DIR|DB", help=words)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="SITE", help="the folder of the page")


def run(options: argparse.Namespace) -> int:
    """Write the page, and say where it is."""
    from breakrank.memory.reading import read
    from breakrank.timeline.site import write_report

    runs = options.place if options.place.is_dir() else options.place.parent
    say(plain(write_report(read(options.place), runs, options.output)))
    return 0
