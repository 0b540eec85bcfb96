"""`breakrank list`: the scenarios and their cases."""

from __future__ import annotations

import argparse
import shutil
import sys

from breakrank.commands import say

HELP = "list the scenarios and their cases"
READS_FILES = True
#: The width where there is no terminal.
_WIDTH = 100


def add(parser: argparse.ArgumentParser) -> None:
    """Add the choice of scenarios, and the form."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these: a name, glob or family (all)")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the cases with their records, too")
    parser.add_argument("--json", action="store_true", help="print one JSON object with all that is known of them")


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    from breakrank.plan.catalogue import ALL, load_scenarios, select
    from breakrank.report.listing import list_json, scenario_list

    selected = select(load_scenarios(), options.names or [ALL])
    if options.json:
        sys.stdout.write(list_json(selected))
        return 0
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    say(scenario_list(selected, width, options.verbose).rstrip("\n"))
    return 0
