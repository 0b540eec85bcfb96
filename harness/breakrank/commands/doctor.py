"""`breakrank doctor`: the machine is looked at."""

from __future__ import annotations

import argparse
import sys

HELP = "say what this machine has and lacks"


def add(parser: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(_: argparse.Namespace) -> int:
    """Print what was found."""
    from breakrank.doctor import report

    sys.stdout.write(report())
    return 0
