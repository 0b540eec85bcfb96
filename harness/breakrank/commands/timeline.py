"""`breakrank timeline`: the picture of a saved run, as one page for a browser."""

from __future__ import annotations

import argparse

from breakrank.commands._saved import add_output, add_run, written

HELP = "draw a saved run as a page for a browser"
READS_FILES = True
_SUFFIX = ".html"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the name of the run, and the file to be written."""
    add_run(parser)
    add_output(parser, _SUFFIX)
    parser.add_argument("--open", action="store_true", help="open it in the browser, too")


def run(options: argparse.Namespace) -> int:
    """Write the page, and print its path."""
    import webbrowser

    from breakrank.timeline.page import write_page

    path = written(options, _SUFFIX, write_page)
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return 0
