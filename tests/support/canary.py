"""A tree outside of the view, and a record of all that can be seen of it: each change of the tree shows."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any


def lay(disk: Path) -> None:
    """Lay files that must stay as they are: checkpoints of somebody else, beside a link, and a folder."""
    (disk / "checkpoints/deep").mkdir(parents=True)
    for name in ("old.bin", "kept.bin", "deep/far.bin"):
        (disk / "checkpoints" / name).write_bytes(name.encode() * 100)
    (disk / "checkpoints/link").symlink_to("old.bin")
    (disk / "checkpoints/old.bin").chmod(0o640)


def seen(tree: Path) -> dict[str, tuple[Any, ...]]:
    """Return the entries of a tree, by path: type and mode, links, size, time of the last change, and contents."""
    found = {}
    for folder, names, files in os.walk(tree):
        for name in (".", *names, *files):
            path = os.path.join(folder, name)
            state = os.lstat(path)
            content: Any = None
            if stat.S_ISREG(state.st_mode):
                content = Path(path).read_bytes()
            elif stat.S_ISLNK(state.st_mode):
                content = os.readlink(path)
            what = (state.st_mode, state.st_uid, state.st_nlink, state.st_size, state.st_mtime_ns, content)
            found[os.path.relpath(path, tree)] = what
    return found
