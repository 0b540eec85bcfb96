"""The commands of `breakrank`: each module here is one, by its own name.

A module has `HELP` (one line), `add(parser)` for its arguments, and `run(options)`, which returns the exit code. Its
imports of other rooms belong into `run`: to parse a command line must stay fast.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from typing import Protocol, cast

from breakrank.files.bounded import plain


class Command(Protocol):
    """The module of a command; one that looks at no process, and so needs no /proc, sets `READS_FILES` too."""

    HELP: str

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it, and return the exit code. Raises `BreakrankError`."""


def all_commands() -> dict[str, Command]:
    """Return the commands by their names."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    return {name: cast(Command, importlib.import_module(f"{__name__}.{name}")) for name in names}


def say(text: str) -> None:
    """Print a text to a terminal that may not have all of its letters."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def note(text: str) -> None:
    """Say a line beside the answer, if there is one to say."""
    if text:
        sys.stderr.write(f"breakrank: {plain(text)}\n")
