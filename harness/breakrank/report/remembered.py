"""The memory's facts about a session and a result: versions, the revision, the image's digest, the code's digest.

A call of pytest, an image that is validated and the matrix of collectives tell it alike, so that one page shows them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.memory.entries import PYTEST, Entry, Session
from breakrank.memory.spans import now
from breakrank.report.compare import finding
from breakrank.runners import docker, find_runner
from breakrank.runners.kind import installed_version
from breakrank.runs.result import Result
from breakrank_agent.plan import Plan

#: Seconds that git may take to name the revision.
_GIT_S = 5.0


def begun(folder: Path, argv: Sequence[str], image: str = "", kind: str = PYTEST, selected: int = 0) -> Session:
    """Return a session that begins now; `folder` is the one whose revision is told."""
    session = Session(
        began=now(),
        kind=kind,
        host=platform.node(),
        git=_revision(folder),
        image=image,
        breakrank=installed_version("pytest-breakrank"),
        argv=tuple(argv),
        selected=selected,
    )
    return replace(session, **(_of_image(image) if image else _here()))


def _here() -> dict[str, Any]:
    """Return the versions of the software that runs the ranks on this machine."""
    python = platform.python_version()
    return {"python": python, "torch": installed_version("torch"), "tf": installed_version("tensorflow")}


def _of_image(image: str) -> dict[str, Any]:
    """Return the digest of an image, and the versions in it; nothing where the image cannot be asked."""
    try:
        images = docker.part("image")
        found, digest = dict(images.versions(image)), str(images.find_image(image).id)
    except BreakrankError:
        return {}
    tf = next((found[name] for name in ("tensorflow", "tensorflow-cpu") if name in found), "")
    return {"python": found.get("python", ""), "torch": found.get("torch", ""), "tf": tf, "image_id": digest}


def _revision(folder: Path) -> str:
    """Return git's revision of a folder, with `-dirty` if files were changed; empty where there is none."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_S, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace").strip()


def with_plan(entry: Entry, plan: Plan, code: Path) -> Entry:
    """Return the result of a case with its plan; `code` is the folder of the programs, or of a user's script."""
    return replace(entry, mechanism=plan.mechanism, runner=plan.runner, plan=plan.key(), code=_digest(plan, code))


def with_result(entry: Entry, result: Result) -> Entry:
    """Return the result of a case with the verdict that its run came to."""
    verdict, record = result.verdict, result.record
    return replace(
        entry,
        seed=result.plan.seed,
        outcome=str(verdict.outcome),
        finding=finding(verdict),
        sentence=verdict.sentence(),
        record=record.words() if record is not None else "",
        as_recorded=result.as_recorded if record is not None else None,
        digest=verdict.digest,
        seconds=result.seconds,
        blame=verdict.blame.words(),
        folder=os.path.basename(result.folder),
    )


#: The software of a runner, by the runner, the framework and the image: asking an image takes long.
_SOFTWARE: dict[tuple[str, str, str], str] = {}


def _digest(plan: Plan, folder: Path) -> str:
    """Return a digest of the programs that a plan runs, and of the software that runs them."""
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
