"""`breakrank list`: the scenarios and their cases."""

from __future__ import annotations

import argparse
import sys

HELP = "list the scenarios and their cases"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(_: argparse.Namespace) -> int:
    """Print the table."""
    from breakrank.plan.catalogue import load_scenarios
    from breakrank.report.terminal import scenario_table

    sys.stdout.write(scenario_table(load_scenarios().values()))
    return 0
