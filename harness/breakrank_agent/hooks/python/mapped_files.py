"""Files that are mapped to be read, and written over meanwhile: what was read from them changes with them.

A file that is replaced, by a rename, is another one; the mapping keeps the one that it had.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

from breakrank_agent.agent.agent import Agent

WAITS_FOR = ""

#: The most files that are looked after.
_MOST = 16


class _File(NamedTuple):
    """A file as it was when it was mapped."""

    device: int
    inode: int
    time: int
    size: int


def install(agent: Agent) -> None:
    """Look at the end of each step whether files that are mapped were written over."""
    mapped = MappedFiles(agent)
    agent.services.mapped = mapped


class MappedFiles:
    """The files that this rank has mapped to read them."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._files: dict[str, tuple[_File, str]] = {}

    def meet(self, path: str) -> None:
        """Keep a file that is being mapped."""
        self._look()
        found = _file(path)
        if found is not None and len(self._files) < _MOST:
            if self.look not in self._agent.on.step_end:
                self._agent.on.step_end.append(self.look)
            self._files.setdefault(os.path.abspath(path), (found, self._agent.sites.here().line))

    def look(self) -> None:
        """Look at the files at the end of a step that is looked at: it may take a while to ask for one."""
        if self._files and self._agent.samples_now():
            self._look()

    def _look(self) -> None:
        """Record the files that are not as they were, and mapped to this day."""
        for path, (was, site) in [*self._files.items()]:
            now = _file(path)
            if now == was:
                continue
            del self._files[path]
            same = now is not None and (now.device, now.inode) == (was.device, was.inode)
            if same and _is_mapped(was.inode):
                self._agent.record("overwritten", path=self._agent.relative(path), site=site)


def _file(path: str) -> Optional[_File]:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return _File(status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def _is_mapped(inode: int) -> bool:
    """Return whether the kernel has a mapping of a file with this number."""
    try:
        with open("/proc/self/maps") as maps:
            return any(line.split()[4:5] == [str(inode)] for line in maps)
    except OSError:
        return False
