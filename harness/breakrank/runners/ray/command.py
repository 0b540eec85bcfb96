"""Commands that have Ray start ranks: Python scripts that import it, in a cluster of their own or in a user's."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_IMPORTS = re.compile(r"^\s*(?:import|from)\s+ray\b", re.MULTILINE)
#: A call that names a cluster, or has Ray look for one; "local" is a new one.
_CONNECTS = re.compile(r"\bray\.init\(\s*(?:[^()]*\baddress\s*=\s*|(?=[\"']))(?![\"']local[\"'])(?!None\b)")


def is_ray(command: Sequence[str], folder: Path) -> bool:
    """Return whether a script of a command imports Ray."""
    return any(_IMPORTS.search(text) for text in _scripts(command, folder))


def joins_cluster(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
    """Return whether the script connects to a cluster that is there already: as `ray.init` decides it.

    Without an address it takes the one that `ray start` has written down on this machine.
    """
    named = environment.get("RAY_ADDRESS", "")
    if named or any(_CONNECTS.search(text) for text in _scripts(command, folder)):
        return named != "local"
    base = environment.get("RAY_TMPDIR") or environment.get("TMPDIR") or tempfile.gettempdir()
    return os.path.exists(os.path.join(base, "ray", "ray_current_cluster"))


def _scripts(command: Sequence[str], folder: Path) -> list[str]:
    """Return the texts of the Python scripts among the words of a command."""
    texts = []
    for word in command:
        if word.endswith(".py"):
            with contextlib.suppress(OSError):
                texts.append((folder / word).read_text(errors="replace"))
    return texts
