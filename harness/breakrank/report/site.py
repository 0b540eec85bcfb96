"""The report of a memory as one page without a server: scenarios, cases and sessions, and what changed.

The page loads nothing from elsewhere. All names and sentences come from runs: the templates escape them.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from breakrank.errors import BreakrankError
from breakrank.memory.entries import Entry, Session
from breakrank.memory.reading import Key, Memory, key_of, pair
from breakrank.memory.spans import duration
from breakrank.report.compare import Comparison
from breakrank.report.sessions import LETTERS, comparison, counted, day

#: The folder of timelines beside the page, each called like its run directory.
TIMELINES = "timelines"
#: The most sessions that have a column: the latest.
MOST_SESSIONS = 30
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Cell:
    """The result of a case in a session. `mark` is `!` if it is not on record, and `~` if it is flaky."""

    outcome: str
    letter: str
    mark: str
    title: str
    link: str


@dataclass(frozen=True)
class Row:
    """A case, with a cell for each session; None where the session does not have it."""

    name: str
    family: str
    mechanism: str
    record: str
    changed: bool
    cells: Sequence[Cell | None]


def check_templates() -> None:
    """Raise `BreakrankError` if the package is missing that fills the templates."""
    if importlib.util.find_spec("jinja2") is None:
        raise BreakrankError("a report needs jinja2; pip install 'pytest-breakrank[report]'")


def shown_sessions(memory: Memory) -> list[Session]:
    """Return the sessions that have a column."""
    return [s for s in memory.sessions if any(entry.tested for entry in memory.entries[s.id])][-MOST_SESSIONS:]


def write_site(memory: Memory, site: Path) -> Path:
    """Write the page into a folder, and return it. Raises `BreakrankError`."""
    sessions = shown_sessions(memory)
    if not sessions:
        raise BreakrankError("the history has no session that tested a case; run a scenario first")
    try:
        site.mkdir(parents=True, exist_ok=True)
        there = _timelines(site)
        page, new = site / "index.html", site / f".index.html.{os.getpid()}"
        shown = {"sessions": _columns(memory, sessions), "wrong": _wrong(memory, sessions[-1], there)}
        text = page_text("site.html.j2", **shown, **_matrix(memory, sessions, there))
        new.write_text(text, encoding="utf-8", errors="replace")
        new.replace(page)
    except OSError as error:
        raise BreakrankError(f"the report cannot be written to {site}: {error.strerror}") from None
    return page


def page_text(template: str, **values: Any) -> str:
    """Return a filled template; whatever it is filled with is text, and never markup. Raises `BreakrankError`."""
    check_templates()
    import jinja2

    loader = jinja2.FileSystemLoader(_TEMPLATES)
    found = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return found.get_template(template).render(**values)


def _timelines(site: Path) -> frozenset[str]:
    folder = site / TIMELINES
    return frozenset(os.listdir(folder)) if folder.is_dir() else frozenset()


def _columns(memory: Memory, sessions: Sequence[Session]) -> list[dict[str, Any]]:
    return [
        {
            "id": session.id,
            "kind": session.kind,
            "began": day(session.began),
            "image": session.image,
            "image_id": session.image_id,
            "digest": session.image_id.removeprefix("sha256:")[:12],
            "git": session.git,
            "host": session.host,
            "versions": ", ".join(f"{name} {version}" for name, version in session.versions.items()),
            "counted": counted(memory.entries[session.id]),
            "seconds": duration(sum(entry.seconds for entry in memory.entries[session.id])),
        }
        for session in sessions
    ]


def _wrong(memory: Memory, session: Session, there: frozenset[str]) -> list[dict[str, str]]:
    """Return the cases of a session that are not on record: what a person opens the page for."""
    wrong = [entry for entry in memory.entries[session.id] if entry.tested and entry.as_recorded is False]
    return [
        {
            "name": entry.name,
            "words": f"{entry.outcome}, on record {entry.record}: {entry.sentence}" if entry.record else entry.sentence,
            "link": _link(entry, there),
        }
        for entry in wrong
    ]


def _link(entry: Entry, there: frozenset[str]) -> str:
    page = f"{entry.folder}.html"
    return f"{TIMELINES}/{quote(page)}" if entry.folder and page in there else ""


def _matrix(memory: Memory, sessions: Sequence[Session], there: frozenset[str]) -> dict[str, Any]:
    results: dict[Key, dict[int, Entry]] = {}
    for session in sessions:
        for entry in memory.entries[session.id]:
            results.setdefault(key_of(entry), {})[session.id] = entry
    rows = [_row([of.get(session.id) for session in sessions], there) for _, of in sorted(results.items())]
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    shown = {"families": dict(sorted(families.items())), "letters": {k: v for k, v in LETTERS.items() if k}}
    return {**shown, **_changes(memory)}


def _row(entries: Sequence[Entry | None], there: frozenset[str]) -> Row:
    found = [entry for entry in entries if entry is not None]
    tested = [entry for entry in found if entry.tested]
    last = found[-1]
    changed = len(tested) > 1 and tested[-1].stood != tested[-2].stood
    cells, before = [], None
    for entry in entries:
        cells.append(_cell(entry, before, there) if entry is not None else None)
        before = entry if entry is not None and entry.tested else before
    return Row(last.name, last.family or "none", last.mechanism, last.record, changed, cells)


def _cell(entry: Entry, before: Entry | None, there: frozenset[str]) -> Cell:
    """Return a cell. The whole sentence is there where it is news: in each cell it would make the page slow."""
    wrong = entry.as_recorded is False
    news = wrong or not entry.tested or before is None or before.stood != entry.stood
    words = [entry.outcome or "not tested", entry.finding, entry.sentence if news else "", duration(entry.seconds)]
    return Cell(
        entry.outcome,
        LETTERS.get(entry.outcome, "?"),
        ("!" if wrong else "") + ("~" if entry.flaky else ""),
        "; ".join(filter(None, words)),
        _link(entry, there),
    )


def _changes(memory: Memory) -> Mapping[str, Any]:
    """Return what got better or worse in the last session that can be compared with one before."""
    try:
        new, old = pair(memory)
    except BreakrankError:
        return {"changes": {}, "compared": ""}
    found: Comparison = comparison(memory, new, old)
    words = f"session {new.id} against session {old.id}: {found.tested} cases tested in both"
    return {"changes": found.changes(), "compared": words}
