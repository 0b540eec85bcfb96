"""A session and its results as the memory has them, made of pytest's configuration and of its reports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder
from breakrank.memory.entries import Entry, Session
from breakrank.plan.catalogue import programs_beside
from breakrank.plugin.collect import Subject
from breakrank.plugin.options import Options
from breakrank.report.remembered import begun, with_plan

#: The words by which a report tells of a truth value.
_HELD = {"true": True, "false": False}


def session_of(config: pytest.Config, options: Options, selected: int) -> Session:
    """Return the session that a call of pytest is."""
    argv = tuple(map(os.fsdecode, map(os.fsencode, config.invocation_params.args)))
    return begun(config.rootpath, argv, options.image, selected=selected)


def entry_of(subject: Subject, told: Mapping[str, str], where: Path) -> Entry:
    """Return the result of a case by what its report tells; `where` is the folder of a user's script."""
    plan = subject.plan
    entry = Entry(subject.scenario.name, subject.case.name, family=subject.scenario.family)
    if plan is not None:
        entry = with_plan(entry, plan, where if plan.command else programs_beside(subject.scenario.path))
    first = _filled(entry, told)
    return replace(first, again=tuple(_filled(entry, one) for one in json.loads(told.get("again", "[]"))))


def _filled(entry: Entry, told: Mapping[str, str]) -> Entry:
    return replace(
        entry,
        seed=int(told.get("seed") or 0),
        outcome=told.get("outcome", ""),
        finding=told.get("finding", ""),
        sentence=told.get("verdict_sentence") or told.get("sentence", ""),
        record=told.get("recorded", ""),
        as_recorded=_HELD.get(told.get("as_recorded", "")),
        digest=told.get("digest", ""),
        seconds=float(told.get("seconds") or 0),
        blame=told.get("blame", ""),
        folder=os.path.basename(told.get("run_directory", "")),
    )


def session_line(session: Session, number: int) -> dict[str, Any]:
    """Return the line of JSON of a session; its number is null if the memory does not have it."""
    line = {**asdict(session), "id": number or None}
    del line["ended"], line["exit"]
    return {"schema": "session", **line}


def result_line(entry: Entry, folder: str, number: int) -> dict[str, Any]:
    """Return the line of JSON of a result, with the whole verdict of its run; null where there is none."""
    line = {name: value for name, value in asdict(entry).items() if name not in ("again", "session")}
    words = {"name": entry.name, "session": number or None, "folder": folder or None, "outcome": entry.outcome or None}
    beside = os.path.dirname(folder)
    again = [result_line(one, os.path.join(beside, one.folder), number) for one in entry.again]
    return {"schema": "result", **line, **words, "verdict": _verdict(folder), "again": again}


def _verdict(folder: str) -> Any:
    try:
        return Folder(Path(folder)).read_json("verdict.json") if folder else None
    except BreakrankError:
        return None
