"""`breakrank history`: the sessions of a folder, and what a case came to in each."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from breakrank.commands import say
from breakrank.commands._memory import add_place, memory_of
from breakrank.errors import BreakrankError

HELP = "say what each session came to, or each result of a case"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the case, and the place."""
    words = "scenario::case, a part of it, or a glob; left out, the sessions"
    parser.add_argument("case", nargs="?", default="", metavar="CASE", help=words)
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Print one row a session. Raises `BreakrankError` for a case that no session has."""
    from breakrank.memory.reading import matching
    from breakrank.report.sessions import fitted, history_of, session_rows, width

    memory = memory_of(options)
    found = matching(memory, options.case) if options.case else {}
    if options.case and not found:
        raise BreakrankError(f"no session has a case like {options.case!r}; breakrank list shows all cases")
    if options.json:
        entries = [asdict(entry) for entries in found.values() for entry in entries]
        say(json.dumps(entries if options.case else [asdict(one) for one in memory.sessions], indent=1))
        return 0
    for line in history_of(memory, options.case) if options.case else session_rows(memory):
        say(fitted(line, width()))
    return 0
