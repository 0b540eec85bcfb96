"""`breakrank trace`: a saved run as a trace, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import argparse

from breakrank.commands._saved import add_output, add_run, written

HELP = "write a saved run as a trace for Perfetto"
READS_FILES = True
_SUFFIX = ".json.gz"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the name of the run, and the file to be written."""
    add_run(parser)
    add_output(parser, _SUFFIX)


def run(options: argparse.Namespace) -> int:
    """Write the trace, and print its path."""
    from breakrank.timeline.trace import write_trace

    written(options, _SUFFIX, write_trace)
    return 0
