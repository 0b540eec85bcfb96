"""`breakrank doctor`: the machine is looked at."""

from __future__ import annotations

import argparse
import sys

HELP = "say what this machine has and lacks"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the form."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Print what was found."""
    from breakrank.doctor import examine, report, swept
    from breakrank.report.answers import doctor_json

    sys.stdout.write(doctor_json(examine(), swept()) if options.json else report())
    return 0
