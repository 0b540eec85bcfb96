"""`breakrank trace`: a saved run as a trace, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import argparse
from pathlib import Path

from breakrank.commands import say
from breakrank.commands._saved import add_run, run_of

HELP = "write a saved run as a trace for Perfetto"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the name of the run, and the file to be written."""
    add_run(parser)
    words = "the file to write; left out, the name of the run with .json.gz, in this folder"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=words)


def run(options: argparse.Namespace) -> int:
    """Write the trace, and print its path."""
    from breakrank.runs.saved_run import limits
    from breakrank.timeline.trace import write_trace

    folder = run_of(options)
    path = options.output or Path(f"{folder.resolve().name}.json.gz")
    with limits(folder):
        write_trace(folder, path)
    say(str(path))
    return 0
