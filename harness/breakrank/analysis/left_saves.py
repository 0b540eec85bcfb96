"""Saves that the next attempt does not begin with: they are not on disk, were removed, or an older one was taken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from breakrank.analysis.lineage import steps_before
from breakrank.history.reader import History, RankHistory
from breakrank.verdict import Finding
from breakrank_agent.protocol.events import LeftEvent, PayloadEvent


def shows_saves(history: History) -> bool | None:
    """Return whether a file that is left is what some save has written; None if not all saves are on record in full."""
    saved = {e["file"] for lived in history.ranks.values() for e in lived.payloads("save")}
    if not saved or None in saved:
        return None
    last = history.attempts[-1] if history.attempts else 0
    return any(e["file"] in saved for e in history.seen("left") if e["attempt"] == last)


def vanished(history: History, control: History) -> list[Finding]:
    """Return the last save of each rank that lies in no file any more at the end of an attempt that another follows.

    The finding is one of the attempt that follows, which begins without it. A save that a rank has removed or written
    over is left out, and one whose bytes were changed where they lie. Nothing is returned if the files of the control
    do not show its saves either: they lie elsewhere, or each of them in several files.
    """
    found = []
    for attempt, following in pairwise(history.attempts) if shows_saves(control) else ():
        left = [e for e in history.seen("left") if e["attempt"] == attempt]
        lost: dict[tuple[int, int], list[tuple[int, str]]] = {}
        for lived in history.attempt(attempt):
            saves = lived.payloads("save")
            if saves and saves[-1]["file"] is not None and saves[-1]["file"] not in {e["file"] for e in left}:
                path = _untouched(history.attempt(attempt), lived, saves[-1])
                if path and not _changed(history, left, path, saves[-1]):
                    lost.setdefault((int(saves[-1]["step"]), int(saves[-1]["done"])), []).append((lived.rank, path))
        for (step, done), saved in sorted(lost.items()):
            ranks = tuple(rank for rank, _ in saved)
            evidence = {"path": saved[0][1], "done": done}
            found.append(Finding("checkpoint", "checkpoint lost", ranks, step, following, evidence=evidence))
    return found


def cleared(history: History, control: History) -> list[Finding]:
    """Return the removal of the last save by its own rank, if no whole one is left at the end of its attempt.

    Nothing is returned for the last attempt, after which nobody resumes, nor if saves lie elsewhere (`_vanished`).
    """
    found = []
    for attempt, following in pairwise(history.attempts) if shows_saves(control) else ():
        saved = {e["file"] for lived in history.ranks.values() for e in lived.payloads("save")}
        left = {e["file"] for e in history.seen("left") if e["attempt"] == attempt}
        for lived in history.attempt(attempt) if None not in saved and not left & saved else ():
            for save in lived.payloads("save")[-1:]:
                after = [e for e in lived.points("write") if e["t"] > save["t"]]
                paths = [save["path"], *[e["path"] for e in after if e["how"] == "rename"][:1]]
                for event in [e for e in after if e["how"] == "remove" and e["path"] in paths][:1]:
                    what = f"rank {lived.rank} removed {event['path']}, the last whole checkpoint, before another was"
                    step, evidence = int(event["step"]), {"what": what, "path": event["path"]}
                    found.append(Finding("checkpoint", "no checkpoint", (lived.rank,), step, following, (), evidence))
    return found


def outdated(history: History) -> list[Finding]:
    """Return the restores, before the first step, of an older checkpoint than another that lay there, whole.

    The other one is of all the ranks and of all the kinds of files that the older one is of: a kind is a name without
    its numbers. A checkpoint is as old as the steps of all attempts that it contains.
    """
    found = []
    saves = [
        (lived, before + int(e["done"]), e)
        for lived in history.ranks.values()
        for before in [steps_before(history, lived.attempt, lived.rank)]
        for e in lived.payloads("save")
    ]
    for attempt, following in pairwise(history.attempts):
        left = {e["file"]: e["path"] for e in history.seen("left") if e["attempt"] == attempt}
        done = {e["file"]: steps for lived, steps, e in saves if lived.attempt <= attempt and e["file"] in left}
        parts: dict[int, set[tuple[int, str]]] = {}
        for lived, _, save in saves:
            if save["file"] in done:
                parts.setdefault(done[save["file"]], set()).add((lived.rank, _kind(left[save["file"]])))
        first = [(lived.rank, e) for lived in history.attempt(following) for e in lived.payloads("restore")]
        reads = [(rank, e) for rank, e in first if e["step"] == 0 and e["file"] in done]
        latest = max((done[e["file"]] for _, e in reads), default=0)
        enough = parts.get(latest, set())
        newer = max((number for number in parts if number > latest and parts[number] >= enough), default=0)
        if latest and newer:
            ranks = tuple(sorted({rank for rank, e in reads if done[e["file"]] == latest}))
            path = next(e["path"] for _, e in reads if done[e["file"]] == latest)
            other = next(left[file] for file, number in done.items() if number == newer)
            evidence = {"path": path, "done": latest, "newer": other, "later": newer}
            found.append(Finding("checkpoint", "older checkpoint", ranks, 0, following, evidence=evidence))
    return found


def _changed(history: History, left: Sequence[LeftEvent], path: str, save: PayloadEvent) -> bool:
    """Return whether a save lies there with other bytes: a file of its size, which is no other save."""
    others = {e["file"] for lived in history.ranks.values() for e in lived.payloads("save")}
    there = [e for e in left if e["path"] == path or e["path"].startswith(f"{path}/")]
    return any(e["size"] == save["size"] and e["file"] not in others for e in there)


def _kind(path: str) -> str:
    """Return a path without its numbers and digests."""
    return re.sub(r"[0-9a-f]{8,}|\d+", "#", path)


def _untouched(ranks: Sequence[RankHistory], saver: RankHistory, save: PayloadEvent) -> str:
    """Return the path that a save came to lie at; nothing if a rank removed it, or began to write over it."""
    after = [
        (lived, e) for lived in ranks for e in (*lived.points("write"), *lived.points("save")) if e["t"] > save["t"]
    ]
    renames = [e["path"] for lived, e in after if lived is saver and e.get("how") == "rename"]
    paths = [save["path"], *renames[:1]]
    touched = [e["path"] for _, e in after if e.get("how") not in ("mkdir", "open folder")]
    for path in renames[:1]:
        touched.remove(path)
    gone = any(path == one or path.startswith(f"{one}/") for path in paths for one in touched)
    return "" if gone or save["path"] == "(memory)" else paths[-1]
