"""`breakrank judge`: a saved run is judged again by what it recorded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from breakrank.commands import _saved, note, say
from breakrank.files.bounded import plain

HELP = "judge a saved run again"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the name of the run, and the form."""
    _saved.add_run(parser)
    _saved.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Judge a saved run by its saved histories, and say whether that agrees with the saved verdict."""
    from breakrank.report import saved_verdict
    from breakrank.report.answers import dumped
    from breakrank.runs.saved_run import limits, load_run, why_unjudged

    folder = _saved.run_of(options)
    with limits(folder):
        saved = load_run(folder)
        note(why_unjudged(saved))
        # A history does not show what made its run VOID beside it: a control that failed to start, say.
        before = saved_verdict(saved) if saved.verdict is not None else None
        now = _saved.judge(saved, before["void"] if before is not None else ())
    if options.json:
        sys.stdout.write(dumped(now))
    else:
        say(plain(f"{now['outcome']}: {now['sentence']}"))
    return 0 if before is None else _compare(now, before, say=note if options.json else say)


def _compare(now: Mapping[str, Any], before: Mapping[str, Any], say: Callable[[str], None]) -> int:
    """Say whether two verdicts agree; return 0, or 1 where they do not."""
    differing = [name for name in ("outcome", "findings", "blame", "digest") if now[name] != before.get(name)]
    if not differing:
        say("this agrees with the saved verdict")
        return 0
    were = f"{before['outcome']}: {before['sentence']}"
    say(plain(f"this differs from the saved verdict in {', '.join(differing)}: {were}"))
    return 1
