"""Files that ranks wrote in a container, brought back into the run directory: those in their folder, and no others."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from breakrank_agent.kernel.rooted import open_root, opened, reopen, resolve, shown
from breakrank_agent.kernel.trees import Copying

#: As many bytes are brought back after one run, and as many stay free on the disk of the run directory.
KEPT_BYTES, FREE_BYTES = 16_000_000_000, 500_000_000


@dataclass
class NotKept:
    """Files and folders that were not brought back: how many, the first of them, and why."""

    count: int = 0
    path: str = ""
    why: str = ""

    def add(self, path: str, why: str) -> None:
        """Count one more."""
        if not self.count:
            self.path, self.why = shown(path), why
        self.count += 1


def bring_back(pid: int, folder: str, to: Path, limit: int = KEPT_BYTES) -> NotKept:
    """Copy a folder, which lies in the root of a process, into the folder `to`; return what was left out.

    Links stay links, and nothing is written through one: whatever is in the way is replaced. Raises `OSError`, also if
    there is a link where the folder was.
    """
    left_out = NotKept()
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(opened(open_root(pid)))
        found = stack.enter_context(opened(_resolve_plain(root, folder)))
        source = stack.enter_context(opened(reopen(found, os.O_RDONLY | os.O_DIRECTORY)))
        target = stack.enter_context(opened(os.open(to, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)))
        room = max(1, min(limit, shutil.disk_usage(target).free - FREE_BYTES))
        Copying(left_out.add, limit=room).copy(source, target)
    return left_out


def remove(pid: int, folder: str) -> None:
    """Remove a folder that lies in the root of a process, as far as that can be done."""
    above, name = os.path.split(folder)
    # One that lies deeper than we go is removed with the volume.
    with contextlib.suppress(OSError, RecursionError), contextlib.ExitStack() as stack:
        root = stack.enter_context(opened(open_root(pid)))
        found = stack.enter_context(opened(resolve(root, above, links=False)))
        # It follows no link, neither there nor below (shutil.rmtree.avoids_symlink_attacks).
        shutil.rmtree(f"/proc/self/fd/{found}/{name}", ignore_errors=True)


def _resolve_plain(root: int, folder: str) -> int:
    try:
        return resolve(root, folder, links=False)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(f"{folder} is a symbolic link now") from None
        raise
