"""Commands about the memory: the folder that is meant, and the sessions of a span of time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breakrank.memory.reading import Memory


def add_place(parser: argparse.ArgumentParser, since: bool = True) -> None:
    """Add the folder of the runs, the span of time, and `--json`."""
    words = "folder of the runs, or a history.sqlite"
    parser.add_argument("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help=words)
    if since:
        parser.add_argument("--since", default="", metavar="TIME", help="only sessions of the last 36h, 14d, 8w")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")


def memory_of(options: argparse.Namespace) -> Memory:
    """Return the memory that a person asks about. Raises `BreakrankError`."""
    import time

    from breakrank.memory.reading import read
    from breakrank.memory.spans import moment, seconds_of

    since = getattr(options, "since", "")
    return read(options.runs, moment(time.time() - seconds_of(since, "--since")) if since else "")
