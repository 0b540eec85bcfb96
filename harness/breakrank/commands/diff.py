"""`breakrank diff`: one session against another."""

from __future__ import annotations

import argparse
import json

from breakrank.commands import say
from breakrank.commands._memory import add_place, memory_of
from breakrank.files.bounded import plain

HELP = "say what got better or worse from one session to another"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the two sessions, and the place."""
    add = parser.add_argument
    add("new", nargs="?", default="last", metavar="A", help="the number of a session, or last (the default)")
    add("old", nargs="?", default="previous", metavar="B", help="the one that it is held against, or previous")
    add_place(parser, since=False)


def run(options: argparse.Namespace) -> int:
    """Print what differs; return 0, 1 if a case got worse, 2 if too much was not tested."""
    from breakrank.memory.reading import pair
    from breakrank.report.layout import wrapped
    from breakrank.report.sessions import comparison, width

    memory = memory_of(options)
    new, old = pair(memory, options.new, options.old)
    found = comparison(memory, new, old)
    if options.json:
        said = {"new": new.id, "old": old.id, "status": found.status, "tested": found.tested, **found.changes()}
        say(json.dumps(said, indent=1))
        return found.status
    for line in found.lines():
        for part in wrapped(plain(line), width(), hang=4):
            say(part)
    return found.status
