"""`breakrank flaky`: equal plans that came to different results."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from breakrank.commands import say
from breakrank.commands._memory import add_place, memory_of

HELP = "list the cases whose results differ although plan, programs and software do not"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the place."""
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Print two rows a plan."""
    from breakrank.memory.reading import flaky
    from breakrank.report.sessions import fitted, flaky_rows, width

    found = flaky(memory_of(options))
    if options.json:
        say(json.dumps([[asdict(entry) for entry in one.entries] for one in found], indent=1))
        return 0
    for line in flaky_rows(found):
        say(fitted(line, width()))
    if not found:
        say("no plan came to two results")
    return 0
