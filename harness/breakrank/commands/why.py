"""`breakrank why`: where the ranks of a running job are."""

from __future__ import annotations

import argparse
import sys

HELP = "say where the ranks of a running job are, and which is the odd one"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the processes."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "pids", type=int, nargs="+", metavar="PID", help="a launcher, ranks of one job, or a job of Slurm's"
    )


def run(options: argparse.Namespace) -> int:
    """Say why a job that was started without us stands still, from the stacks of its ranks."""
    from breakrank.live.why import why
    from breakrank.report.answers import why_json
    from breakrank.report.groups import draw_answer

    answer = why(options.pids)
    sys.stdout.write(why_json(answer) if options.json else draw_answer(answer))
    return 0
