"""A session and its results as the memory has them, made of pytest's configuration and of its reports."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder
from breakrank.memory.entries import Entry, Session
from breakrank.memory.spans import now
from breakrank.plan.catalogue import packaged_programs
from breakrank.plugin.collect import Subject
from breakrank.plugin.options import Options
from breakrank.runners import docker, find_runner
from breakrank.runners.kind import installed_version
from breakrank_agent.plan import Plan

#: Seconds that git may take to name the revision.
_GIT_S = 5.0
#: The words by which a report tells of a truth value.
_HELD = {"true": True, "false": False}


def session_of(config: pytest.Config, options: Options, selected: int) -> Session:
    """Return the session that a call of pytest is."""
    session = Session(
        began=now(),
        host=platform.node(),
        git=_revision(config.rootpath),
        image=options.image,
        breakrank=installed_version("pytest-breakrank"),
        argv=tuple(map(os.fsdecode, map(os.fsencode, config.invocation_params.args))),
        selected=selected,
    )
    return replace(session, **_versions(options.image))


def _versions(image: str) -> dict[str, Any]:
    """Return the versions of what runs the ranks: in the image, or here."""
    if not image:
        python = platform.python_version()
        return {"python": python, "torch": installed_version("torch"), "tf": installed_version("tensorflow")}
    try:
        found = dict(docker.part("image").versions(image))
    except BreakrankError:
        return {}
    tf = next((found[name] for name in ("tensorflow", "tensorflow-cpu") if name in found), "")
    return {"python": found.get("python", ""), "torch": found.get("torch", ""), "tf": tf}


def _revision(folder: Path) -> str:
    """Return git's revision of a folder, with `-dirty` if files were changed; empty where there is none."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_S, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace").strip()


def entry_of(subject: Subject, told: Mapping[str, str], where: Path) -> Entry:
    """Return the result of a case by what its report tells; `where` is the folder of a user's script."""
    plan = subject.plan
    entry = Entry(subject.scenario.name, subject.case.name, family=subject.scenario.family)
    if plan is not None:
        code = _code(plan, subject.scenario.path.parent, where)
        entry = replace(entry, mechanism=plan.mechanism, runner=plan.runner, plan=plan.key(), code=code)
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


#: The software of a runner, by the runner, the framework and the image: asking an image takes long.
_SOFTWARE: dict[tuple[str, str, str], str] = {}


def _code(plan: Plan, scenarios: Path, where: Path) -> str:
    """Return a digest of the programs that a plan runs, and of the software that runs them."""
    own = scenarios / "programs"
    folder = where if plan.command else own if own.is_dir() else packaged_programs()
    key = plan.runner, plan.framework, plan.image
    if key not in _SOFTWARE:
        try:
            _SOFTWARE[key] = json.dumps(find_runner(plan.runner).software(plan), sort_keys=True)
        except BreakrankError:
            _SOFTWARE[key] = ""
    own_version = installed_version("pytest-breakrank")
    return hashlib.sha256("\0".join([own_version, _SOFTWARE[key], _programs(folder)]).encode()).hexdigest()[:16]


@functools.cache
def _programs(folder: Path) -> str:
    """Return a digest of the Python files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        with contextlib.suppress(OSError):
            digest.update(os.fsencode(path.name) + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


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
