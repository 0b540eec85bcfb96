"""`breakrank show`: a saved run is explained as its failure was."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import replace

from breakrank.commands import note, say
from breakrank.commands._saved import add_json, add_run, judge, run_of

HELP = "explain a saved run again"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the name of the run, and the form."""
    add_run(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Explain a saved run as its failure did; one that was cut short by what it had recorded."""
    from breakrank.report import explain, saved_verdict
    from breakrank.report.answers import dumped
    from breakrank.runs.saved_run import limits, load_run, why_unjudged

    folder = run_of(options)
    with limits(folder):
        saved = load_run(folder)
        note(why_unjudged(saved))
        if saved.verdict is None:
            saved = replace(saved, verdict=judge(saved, ()))
        if options.json:
            sys.stdout.write(dumped(saved_verdict(saved)))
        else:
            say(explain(saved, shutil.get_terminal_size().columns if sys.stdout.isatty() else 0))
    return 0
