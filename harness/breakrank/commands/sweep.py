"""`breakrank sweep`: what dead sessions left behind is removed."""

from __future__ import annotations

import argparse

from breakrank.errors import BreakrankError

HELP = "remove what sessions left behind whose pytest is dead"


def add(parser: argparse.ArgumentParser) -> None:
    """Add what is removed."""
    parser.add_argument("--dry-run", action="store_true", help="only show it")
    parser.add_argument("--session", default="", metavar="ID", help="what carries this id, alive or not")


def run(options: argparse.Namespace) -> int:
    """Remove what dead sessions left behind, or what carries the id of `--session`, and say what it was."""
    from breakrank.host import session as sessions
    from breakrank.host.agent_link import remove_detours
    from breakrank.runners import all_runners

    dry_run, session = options.dry_run, options.session
    left = [] if session else [f"process {pid} ({name})" for pid, name in sessions.leftovers().items()]
    if not dry_run and not session:
        sessions.sweep()
    left += remove_detours(session, dry_run)
    for kind in all_runners().values():
        try:
            left += kind.sweep(dry_run, session)
        except BreakrankError as error:
            print(f"nothing of the runner {kind.name} was looked for: {' '.join(str(error).split())}")
    print("\n".join(left) if left else "nothing is left of dead sessions")
    return 0
