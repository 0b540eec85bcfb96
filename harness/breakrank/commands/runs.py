"""`breakrank runs`: the run directories in a folder."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from breakrank.commands import say
from breakrank.files.bounded import plain

if TYPE_CHECKING:
    from breakrank.runs.listing import Listed

HELP = "list the saved runs, the newest first"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the folder, and what of it is shown."""
    parser.add_argument("--failed", action="store_true", help="only runs whose verdict is not as it should be")
    parser.add_argument("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder of the runs")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")


def run(options: argparse.Namespace) -> int:
    """Print one row a run."""
    from breakrank.report.sessions import fitted, width
    from breakrank.runs.listing import listed

    found = [one for one in listed(options.runs) if one.failed or not options.failed]
    if options.json:
        say(json.dumps([{**asdict(one), "folder": str(options.runs / one.name)} for one in found], indent=1))
        return 0
    for one in found:
        for line in _rows(one):
            say(fitted(line, width()))
    if not found:
        say(plain(f"no run in {options.runs} went wrong" if options.failed else f"there is no run in {options.runs}"))
    return 0


def _rows(one: Listed) -> list[str]:
    """Return the row of a run, and below it what was found if that is not as it should be."""
    from breakrank.memory.spans import duration, moment
    from breakrank.report.sessions import day

    mark = "!" if one.failed else " "
    first = f"{day(moment(one.ended))} {mark} {one.outcome or one.state:<9} {one.name}"
    return [first, f"    {duration(one.seconds)}: {one.sentence}"] if one.failed else [first]
