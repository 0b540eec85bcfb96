"""Reports about runs: a row in a table, and for a failure the few events that show it.

Everything here reads the saved form of a verdict, so that a run is explained the same fresh and years later.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from breakrank.analysis.error_words import is_foreign
from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder, plain
from breakrank.history.reader import History, RankHistory
from breakrank.report.drawing import draw, draw_growth
from breakrank.report.events import telling_events
from breakrank.report.layout import wrapped
from breakrank.report.positions import draw_stood
from breakrank.report.words import plan_words
from breakrank.runs.saved_run import SavedRun
from breakrank.verdict import Blame, name_ranks

__all__ = ["explain", "plan_words", "saved_verdict"]

_STREAMS = (("stdout", "out"), ("stderr", "err"))
#: The most lines shown of a rank, and of a launcher, which prints its ranks' lines and then a table of its own.
_TAIL_LINES, _LAUNCHER_LINES = 8, 30
_TAIL_BYTES = 4096
#: A line of a traceback that only points at the one above it.
_UNDERLINES = re.compile(r"(\[rank\d+\]:)?\s+[\^~][\^~\s]*")
#: The most frames of the user's that are shown: the innermost ones.
_FRAMES = 8

#: The fields that `verdict.json` has at least.
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


def explain(run: SavedRun, width: int = 0, advice: str = "", pages: Sequence[str] = ()) -> str:
    """Explain a run: a sentence, the record, a drawing, the events that show it, blame, files, and the replay line.

    Nothing in it can move a terminal. Lines are at most `width` cells wide, unless that is 0; names of files and the
    command of the replay stay whole, so that they can be copied. `advice` stands in the place of the record: where it
    is written. `pages` are files that were made of the run. Raises `BreakrankError` if the run has no verdict.
    """
    verdict = saved_verdict(run)
    accesses = partial(telling_events, width=max(0, width - 4))
    folder = _near(run.folder)
    blocks = [
        _headline(run, verdict, advice),
        _block("what the ranks did", _drawn(draw, run, verdict)),
        _block("what grows, step by step", _drawn(draw_growth, run, verdict)),
        _block("the events that show it", _drawn(accesses, run, verdict)),
        _block("where the ranks stood", _drawn(draw_stood, run, verdict)),
        _block("blame", [blame_words(verdict), *verdict.get("accused", ())]),
        _block("also", _also(run, verdict)),
        _outputs(run),
    ]
    lines = [part for block in blocks if block for line in block.split("\n") for part in wrapped(line, width)]
    whole = [_block("files", [folder, *pages]), _block("replay", [f"pytest --scenario-replay {shlex.quote(folder)}"])]
    return "\n".join([*lines, *whole])


def _near(folder: Path) -> str:
    """Return a folder as it is named from the one that we are in, if it lies below that."""
    with contextlib.suppress(ValueError, OSError):
        return str(folder.relative_to(Path.cwd()))
    return str(folder)


def _drawn(drawing: Callable[[History, Mapping[str, Any]], list[str]], run: SavedRun, verdict: Any) -> list[str]:
    """Return what a drawing comes to, or that the records do not fit together."""
    try:
        return drawing(run.history, verdict)
    except Exception as error:
        return [f"(this cannot be drawn of what was recorded: {type(error).__name__}: {error})"]


def _headline(run: SavedRun, verdict: Mapping[str, Any], advice: str) -> str:
    """Return the outcome with its sentence, and what was on record if that is something else, or advice about it."""
    blamed = verdict["blame"]["ranks"] if verdict["outcome"] == "HUNG" else []
    whom = f". Blame: {name_ranks(blamed)}" if blamed else ""
    lines = [f"{run.plan.scenario}::{run.plan.case}: {verdict['outcome']}: {verdict['sentence']}{whom}"]
    if verdict.get("record") and not verdict.get("as_recorded"):
        lines.append(f"  {advice or 'on record is ' + verdict['record']}")
    return "\n".join(map(plain, lines))


def blame_words(verdict: Mapping[str, Any]) -> str:
    """Say who is to blame."""
    blame = verdict["blame"]
    return Blame(tuple(blame["ranks"]), blame["reason"]).words()


def _also(run: SavedRun, verdict: Mapping[str, Any]) -> list[str]:
    """Return what else the verdict holds: more findings, reports, reasons for VOID, abstentions, notes."""
    found = [*verdict["findings"][1:], *verdict.get("also", ())]
    lines = [f"{f['oracle']}: {f['sentence']}" for f in found]
    lines += [f"reported: {text}" for text in verdict["reported"]]
    lines += [f"void: {text}" for text in verdict["void"][1:]]
    lines += [
        f"{oracle} abstained: {reason}" for oracle, reason in verdict["abstained"].items() if oracle in run.plan.oracles
    ]
    lines += [f"note: {text}" for text in verdict["notes"]]
    return [line for line in lines if not line.endswith(f": {verdict['sentence']}")]


def _outputs(run: SavedRun) -> str:
    """Return the last lines that whoever failed wrote, in the control if nothing came after it."""
    place = Folder(run.folder)
    if run.history.attempts or run.control is None:
        return _last_lines(place, "", run.history)
    name, history = ("control", run.control) if run.second is None else ("control-again", run.second)
    return _last_lines(place, f"{name}/", history)


def _last_lines(place: Folder, base: str, history: History) -> str:
    """Return the last lines of each rank of the last attempt that reported or died, and of a launcher that failed.

    The user's own frames come first: the end of a long traceback has none of them.
    """
    blocks = []
    for lived in history.last:
        if lived.report is None and lived.died_of() is None and (lived.ended_by_us or not lived.status):
            continue
        blocks.append(_block(f"rank {lived.rank} failed in", _own_frames(lived)))
        for stream, ending in _STREAMS:
            tail = _tail(place, f"{base}attempt-{lived.attempt}/rank-{lived.rank}.{ending}", _TAIL_LINES)
            blocks.append(_block(f"rank {lived.rank} {stream}", tail))
    if any(event["status"] for event in history.seen("launcher")):
        for stream, ending in _STREAMS:
            blocks.append(_block(f"launcher {stream}", _tail(place, f"{base}launcher.{ending}", _LAUNCHER_LINES)))
    return "\n".join(block for block in blocks if block)


def _own_frames(lived: RankHistory) -> list[str]:
    """Return the user's frames that a rank's report came through, the innermost last, without the framework's."""
    frames = lived.report.get("frames", ()) if lived.report is not None else ()
    own = [frame for frame in frames if not is_foreign(str(frame[0]))]
    return [f"{_near(Path(str(file)))}:{line} in {function}" for file, line, function in own[-_FRAMES:]]


def _tail(place: Folder, name: str, lines: int) -> list[str]:
    """Return the last lines of a file; none if it is not there, and why where it is not to be read."""
    try:
        said = place.tail(name, _TAIL_BYTES).decode(errors="replace").splitlines()
        return [line for line in said if not _UNDERLINES.fullmatch(line)][-lines:]
    except BreakrankError as error:
        return [f"({error})"]


def _block(title: str, lines: list[str]) -> str:
    """Return the lines under a title, or the empty string if there are none."""
    return "\n".join([f"  {title}:", *(f"    {plain(line)}" for line in lines)]) if lines else ""
