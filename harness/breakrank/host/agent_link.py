"""A way to the agent that a search path can hold, where the folder of the runs has a name that it cannot.

PYTHONPATH has no way to write a folder with a colon, and frameworks take a file's name for UTF-8. The way is a symlink
in a private folder of the temporary directory, which carries the session's id: whoever sweeps knows whose it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.host.session_name import is_alive

_PREFIX = "breakrank-"
#: The form of a session's id, see `breakrank.host.session`.
_ID = re.compile(r"\d+-\d+-\d+-[0-9a-f]{8}")


def is_passable(path: Path) -> bool:
    """Return whether a search path can hold a folder."""
    try:
        return os.pathsep not in str(path) and bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def make_detour(target: Path, session: str) -> Path:
    """Return a folder that a search path can hold and that leads to `target`. Raises `BreakrankError`.

    `target` itself, where it can be held; else a symlink of the same name, which `remove_detours` takes away.
    """
    if is_passable(target):
        return target
    for folder in _places():
        with contextlib.suppress(OSError):
            private = folder / f"{_PREFIX}{session}"
            private.mkdir(mode=0o700)
            (private / target.name).symlink_to(target)
            return private / target.name
    raise BreakrankError(
        f"ranks cannot import from {str(target.parent)!r}, for a character in its name, and no temporary directory can "
        "be written; set TMPDIR, or the ini option scenario_runs to another folder"
    )


def remove_detours(session: str = "", dry_run: bool = False) -> list[str]:
    """Remove the ways of one session, or of all sessions of this user whose owner is dead; return what they were."""
    removed = []
    for folder in dict.fromkeys(_places()):
        for private in sorted(folder.glob(f"{_PREFIX}*")):
            owner = private.name.removeprefix(_PREFIX)
            gone = owner == session if session else bool(_ID.fullmatch(owner)) and not is_alive(owner)
            if gone and _is_ours(private):
                removed.append(f"folder {private}")
                if not dry_run:
                    shutil.rmtree(private, ignore_errors=True)
    return removed


def _places() -> Iterator[Path]:
    """Yield the temporary directories that a search path can hold."""
    with contextlib.suppress(OSError):
        yield from filter(is_passable, [Path(tempfile.gettempdir())])
    yield from map(Path, ("/tmp", "/var/tmp"))


def _is_ours(folder: Path) -> bool:
    """Return whether it is a folder of this user, and no symlink to one: anybody may make one there."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
