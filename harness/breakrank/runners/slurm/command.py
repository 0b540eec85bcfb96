"""Commands that have Slurm start ranks: srun, sbatch and salloc themselves, and shell scripts that call one of them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

#: The programs that hand what they start to daemons, on this machine or another.
PROGRAMS = frozenset(("srun", "sbatch", "salloc"))
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
_CALLS = re.compile(rf"^\s*(?:exec\s+|time\s+)?(?:{'|'.join(sorted(PROGRAMS))})\b", re.MULTILINE)


def is_slurm(command: Sequence[str], folder: Path) -> bool:
    """Return whether a command has Slurm start its ranks."""
    if not command:
        return False
    program = os.path.basename(command[0])
    if program in PROGRAMS:
        return True
    if program not in _SHELLS:
        return _calls(folder / command[0]) if command[0].endswith(".sh") else False
    for number, word in enumerate(command[1:], 1):
        if word.startswith("-") and word.endswith("c"):
            return bool(_CALLS.search("".join(command[number + 1 : number + 2])))
        if not word.startswith("-"):
            return _calls(folder / word)
    return False


def _calls(script: Path) -> bool:
    """Return whether a line of a shell script begins with a program of Slurm's."""
    with contextlib.suppress(OSError):
        return bool(_CALLS.search(script.read_text(errors="replace")))
    return False
