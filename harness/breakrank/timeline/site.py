"""The report of a memory, beside it a page for each run that is not on record and is still kept."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.memory.reading import Memory
from breakrank.report.site import TIMELINES, shown_sessions, write_site
from breakrank.timeline.page import write_page


def write_report(memory: Memory, runs: Path, site: Path) -> Path:
    """Draw the runs of the folder `runs` that went wrong, write the report that leads to them, and return its page.

    A run that cannot be drawn has no link. Raises `BreakrankError` where the report cannot be written.
    """
    pages = site / TIMELINES
    for name in _wrong(memory):
        run, page = runs / name, pages / f"{name}.html"
        with contextlib.suppress(BreakrankError, OSError):
            # A name is given again once its run was removed: the page may be that of an older run.
            if not page.exists() or os.stat(run / "verdict.json").st_mtime > os.stat(page).st_mtime:
                pages.mkdir(parents=True, exist_ok=True)
                write_page(run, page)
    return write_site(memory, site)


def _wrong(memory: Memory) -> Iterator[str]:
    """Yield the names of the run directories of results that are not on record, of the sessions that are shown."""
    shown = [entry for session in shown_sessions(memory) for entry in memory.entries[session.id]]
    names = {entry.folder for entry in shown if entry.tested and entry.as_recorded is False}
    # The names come from a file, and lead nowhere else.
    yield from sorted(name for name in names if name not in ("", ".", "..") and os.path.basename(name) == name)
