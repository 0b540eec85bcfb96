"""The page of a run: one file of HTML that holds all it needs, and loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.files.bounded import plain
from breakrank.history.reader import History
from breakrank.report import plan_words
from breakrank.report.events import telling_events
from breakrank.timeline import words
from breakrank.timeline.crowd import part
from breakrank.timeline.draw import Output, anchors, draw, links
from breakrank.timeline.model import Link, Picture
from breakrank.timeline.pack import Told, compressed, pack
from breakrank.timeline.reading import BESIDE, Seen, read_run
from breakrank.timeline.thin import thin

_SCRIPTS = ("model.js", "chart.js", "joints.js", "input.js", "page.js")
#: Histories beside that of the run which are larger than so many bars are left out.
_MOST_BESIDE = 100_000


def check_templates() -> None:
    """Raise `BreakrankError` where the package that fills templates is missing."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise BreakrankError("pages need jinja2: pip install 'pytest-breakrank[report]'") from None


def write_page(folder: Path, path: Path) -> Path:
    """Write the page of a saved run; return its path. Raises `BreakrankError`."""
    text = page(folder)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BreakrankError(f"the page cannot be written to {path}: {error.strerror}") from None
    return path


def page(folder: Path) -> str:
    """Return the page of a saved run. Raises `BreakrankError` where there is no run at all."""
    check_templates()
    import jinja2
    from markupsafe import Markup

    assets = files("breakrank.timeline") / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    script = "".join((assets / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((assets / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        # A browser runs and applies nothing but these two texts, whatever a run may have smuggled in.
        policy=f"default-src 'none'; script-src {_allowed(script)}; style-src {_allowed(style)}; base-uri 'none'",
        style=Markup(style),
        script=Markup(script),
        **_content(read_run(folder)),
    )


def _allowed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _content(seen: Seen) -> dict[str, Any]:
    """Return all that the template shows of a run."""
    missing = list(seen.missing)
    plan = seen.plan
    faults = [strike.fault.name() for strike in plan.strikes] if plan is not None else []
    picture = _drawn(seen.history, missing, faults, seen.printed)
    shown, heat = part(picture, seen.verdict)
    found = [one for one in seen.verdict.get("findings", ()) if isinstance(one, Mapping)]
    near = anchors(seen.history, found)
    shown, left_out = thin(shown, near)
    joined = links(shown, found)
    data, told = pack(shown, joined, near, heat)
    outcome = plain(seen.verdict.get("outcome") or "not judged")
    return {
        "title": plain(f"{plan.scenario}::{plan.case}" if plan is not None else seen.folder.resolve().name),
        "outcome": outcome,
        "badge": outcome if outcome.isalpha() else "none",
        "sentence": plain(seen.verdict.get("sentence", "")),
        "missing": [plain(line) for line in missing],
        "facts": words.facts(seen, picture),
        "thinned": _thinned(picture, shown, told, left_out),
        "waits": words.waits(seen),
        "evidence": words.evidence(seen),
        "findings": words.findings(seen.verdict),
        "events": _events(seen) if found else "",
        "undrawn": _undrawn(picture),
        "notes": words.notes(seen),
        "stacks": words.stacks(seen),
        "outputs": words.outputs(seen, (lane.rank for lane in shown.lanes)),
        "controls": _beside(seen),
        "plan": words.shown(plan_words(plan)) if plan is not None else "the plan cannot be read",
        "made": words.made(seen, picture),
        "replay": plain(f"pytest --scenario-replay {seen.folder}"),
        "script_facts": {
            "blamed": list((seen.verdict.get("blame") or {}).get("ranks", ())),
            "turns": bool(found and found[0].get("oracle") == "race" and any(_placed(shown, link) for link in joined)),
        },
        "data": compressed(data),
    }


def _placed(picture: Picture, link: Link) -> bool:
    return picture.marks[link.one].turn >= 0 and picture.marks[link.other].turn >= 0


def _drawn(history: History, missing: list[str], faults: Sequence[str] = (), printed: Output | None = None) -> Picture:
    """Return the picture of a history; an empty one where its records contradict each other."""
    try:
        return draw(history, faults, printed)
    except Exception as error:
        missing.append(f"this cannot be drawn of what was recorded: {type(error).__name__}: {error}")
        return Picture()


def _beside(seen: Seen) -> list[dict[str, str]]:
    """Return the pictures of the histories that the run was compared with."""
    rows = []
    for name, history in seen.beside.items():
        picture = _drawn(history, [])
        if picture.lanes and len(picture.bars) <= _MOST_BESIDE:
            shown, heat = part(picture, {})
            rows.append({"id": name, "title": BESIDE[name], "data": compressed(pack(shown, heat=heat)[0])})
    return rows


def _thinned(picture: Picture, shown: Picture, told: Told, left_out: int) -> list[str]:
    """Say what the page leaves out of the run directory, a line each."""
    lines = []
    if told.whole < told.events:
        lines.append(
            f"Of {told.events:,} bars and marks {told.whole:,} have their whole events on this page: those at the "
            "steps of strikes and findings, and the last ones of each thread. Of the others it has names, times and "
            "lines."
        )
    if left_out:
        lines.append(f"{left_out:,} bars and marks far from strikes, findings, beginnings and ends are left out.")
    ranks, lanes = ({lane.rank for lane in one.lanes} for one in (picture, shown))
    if len(lanes) < len(ranks):
        lines.append(
            f"{len(lanes)} of {len(ranks)} ranks have lanes: blamed and waiting ones, and some to compare them with. "
            "The others are the lane of heat."
        )
    return lines


def _undrawn(picture: Picture) -> str:
    """Say which events are in the run directory alone."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(picture.undrawn.items())[:40])
    return f"Events that are not drawn, and are in the run directory: {kinds}." if kinds else ""


def _events(seen: Seen) -> str:
    """Return the few events that show a failure, as its explanation has them."""
    try:
        return words.shown("\n".join(telling_events(seen.history, seen.verdict)))
    except Exception as error:
        return plain(f"(this cannot be said of what was recorded: {type(error).__name__}: {error})")
