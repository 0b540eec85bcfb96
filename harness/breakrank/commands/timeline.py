"""`breakrank timeline`: the picture of a saved run, as one page for a browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from breakrank.commands import say
from breakrank.commands._saved import add_run, run_of

HELP = "draw a saved run as a page for a browser"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the name of the run, and the file to be written."""
    add_run(parser)
    words = "the file to write; left out, the name of the run with .html, in this folder"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=words)
    parser.add_argument("--open", action="store_true", help="open it in the browser, too")


def run(options: argparse.Namespace) -> int:
    """Write the page, and print its path."""
    import webbrowser

    from breakrank.runs.saved_run import limits
    from breakrank.timeline.page import write_page

    folder = run_of(options)
    path = options.output or Path(f"{folder.resolve().name}.html")
    with limits(folder):
        write_page(folder, path)
    say(str(path))
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return 0
