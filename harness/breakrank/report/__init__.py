"""Reports say what came of a run: a row in a table, and for a failure the few events that show it.

Everything here reads the saved form of a verdict, so that a run is explained the same fresh and years later.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.history import History
from breakrank.report.drawing import draw, draw_growth
from breakrank.report.events import telling_events
from breakrank.report.stood import draw_stood
from breakrank.report.words import plan_words
from breakrank.run import SavedRun
from breakrank.verdict import Blame, name_ranks

__all__ = ["explain", "plan_words", "saved_verdict"]

_STREAMS = (("stdout", "out"), ("stderr", "err"))
#: How many lines of a rank are shown, and of a launcher, which prints its ranks' and a table of its own below them.
_TAIL_LINES, _LAUNCHER_LINES = 8, 30
_TAIL_BYTES = 4096


#: What `verdict.json` holds at least.
_FIELDS = frozenset(
    ("outcome", "sentence", "findings", "blame", "reported", "void", "abstained", "notes", "digest"),
)


def saved_verdict(run: SavedRun) -> Mapping[str, Any]:
    """Return the verdict of a saved run. Raises `BreakrankError` if there is none, or not a whole one."""
    if run.verdict is None:
        raise BreakrankError(f"{run.folder} was never judged: its run was cut short; start the scenario again")
    lacking = sorted(_FIELDS - set(run.verdict)) if isinstance(run.verdict, Mapping) else ["outcome"]
    if lacking:
        raise BreakrankError(f"{run.folder / 'verdict.json'} is damaged: it has no field {lacking[0]!r}")
    return run.verdict


def explain(run: SavedRun) -> str:
    """Explain a run: a sentence, the record, a drawing, the events that show it, blame, files, and the replay line.

    Raises `BreakrankError` if the run has no verdict.
    """
    verdict = saved_verdict(run)
    blocks = [
        _headline(run, verdict),
        _block("what the ranks did", draw(run.history, verdict)),
        _block("what grows, step by step", draw_growth(run.history, verdict)),
        _block("the events that show it", telling_events(run.history, verdict)),
        _block("where the ranks stood", draw_stood(run.history, verdict)),
        _block("blame", [blame_words(verdict), *verdict.get("accused", ())]),
        _block("also", _also(verdict)),
        _outputs(run),
        _block("files", [str(run.folder)]),
        _block("replay", [f"pytest --scenario-replay {run.folder}"]),
    ]
    return "\n".join(block for block in blocks if block)


def _headline(run: SavedRun, verdict: Mapping[str, Any]) -> str:
    """Return the outcome with its sentence, and what was on record if that is something else."""
    blamed = verdict["blame"]["ranks"] if verdict["outcome"] == "HUNG" else []
    whom = f". Blame: {name_ranks(blamed)}" if blamed else ""
    lines = [f"{run.plan.scenario}::{run.plan.case}: {verdict['outcome']}: {verdict['sentence']}{whom}"]
    if verdict.get("record") and not verdict.get("as_recorded"):
        lines.append(f"  on record is {verdict['record']}")
    return "\n".join(lines)


def blame_words(verdict: Mapping[str, Any]) -> str:
    """Say who is to blame."""
    blame = verdict["blame"]
    return Blame(tuple(blame["ranks"]), blame["reason"]).words()


def _also(verdict: Mapping[str, Any]) -> list[str]:
    """Return what else the verdict holds: more findings, reports, reasons for VOID, abstentions, notes."""
    lines = [f"{f['oracle']}: {f['sentence']}" for f in verdict["findings"][1:]]
    lines += [f"reported: {text}" for text in verdict["reported"]]
    lines += [f"void: {text}" for text in verdict["void"][1:]]
    lines += [f"{oracle} abstained: {reason}" for oracle, reason in verdict["abstained"].items()]
    lines += [f"note: {text}" for text in verdict["notes"]]
    return [line for line in lines if not line.endswith(f": {verdict['sentence']}")]


def _outputs(run: SavedRun) -> str:
    """Return the last lines that whoever failed wrote, in the control if nothing came after it."""
    if run.history.attempts or run.control is None:
        return _last_lines(run.folder, run.history)
    name, history = ("control", run.control) if run.second is None else ("control-again", run.second)
    return _last_lines(run.folder / name, history)


def _last_lines(folder: Path, history: History) -> str:
    """Return the last lines of each rank of the last attempt that reported or died, and of a launcher that failed."""
    blocks = []
    for lived in history.last:
        if lived.report is None and lived.died_of() is None and (lived.ended_by_us or not lived.status):
            continue
        for stream, ending in _STREAMS:
            tail = _tail(folder / f"attempt-{lived.attempt}" / f"rank-{lived.rank}.{ending}", _TAIL_LINES)
            blocks.append(_block(f"rank {lived.rank} {stream}", tail))
    if any(event["status"] for event in history.seen("launcher")):
        for stream, ending in _STREAMS:
            blocks.append(_block(f"launcher {stream}", _tail(folder / f"launcher.{ending}", _LAUNCHER_LINES)))
    return "\n".join(block for block in blocks if block)


def _tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a file; none if it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]


def _block(title: str, lines: list[str]) -> str:
    """Return the lines under a title, or the empty string if there are none."""
    return "\n".join([f"  {title}:", *(f"    {line}" for line in lines)]) if lines else ""
