"""Find the address of a Docker engine, as docker's own command does: by the environment, a context, or as ever."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError

#: The address of an engine that root has started.
USUAL = "unix:///var/run/docker.sock"
_DEFAULT = "default"


def address() -> str:
    """Return the address of the engine. Raises `BreakrankError` if a context is chosen that has none."""
    if host := os.environ.get("DOCKER_HOST"):
        return host
    name = os.environ.get("DOCKER_CONTEXT") or _read(configuration()).get("currentContext") or _DEFAULT
    if name == _DEFAULT:
        return USUAL
    folder = configuration().parent / "contexts/meta" / hashlib.sha256(str(name).encode()).hexdigest()
    try:
        return str(_read(folder / "meta.json")["Endpoints"]["docker"]["Host"])
    except (KeyError, TypeError):
        raise BreakrankError(
            f"docker's context {name} names no engine; docker context use default, or set DOCKER_HOST"
        ) from None


def configuration() -> Path:
    """Return the file in which docker's command keeps what it is told: contexts, and credentials."""
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"


def cure(otherwise: str) -> str:
    """Return how to come by an engine where none answers: the one that this user runs, or what there is to do else."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{os.getuid()}"):
        socket = f"{folder}/docker.sock"
        if os.path.exists(socket) and address() != f"unix://{socket}":
            return f"you have one that runs without root: export DOCKER_HOST=unix://{socket}"
    return otherwise


def _read(path: Path) -> dict[str, Any]:
    """Return what a file holds; nothing where it is not there, or not what docker writes."""
    try:
        held = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}
