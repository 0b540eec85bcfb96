"""A user's own script: what is executed for it, and what is wrong with it before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from breakrank.errors import BreakrankError


def command_line(command: Sequence[str]) -> list[str]:
    """Return what is executed: `train.py …` and `python train.py …` run in this interpreter.

    Raises `BreakrankError` for anything else, such as a launcher.
    """
    words = list(command)
    if Path(words[0]).name in ("python", "python3"):
        words = words[1:]
    if not words or not words[0].endswith(".py"):
        raise BreakrankError(
            f"'{' '.join(command)}' is no Python script; name one, as in 'train.py --epochs 2' (launchers come later)"
        )
    return [sys.executable, *words]


def check_script(command: Sequence[str], folder: Path) -> None:
    """Raise `BreakrankError`, in one line, if the script of `command` is not there or is no Python."""
    script = command_line(command)[1]
    path = folder / script
    if not path.is_file():
        raise BreakrankError(f"there is no {script} in {folder}")
    try:
        compile(path.read_bytes(), script, "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{script}, line {line}" if line else script
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise BreakrankError(f"{where} is no Python {version}: {error.args[0]}") from None
