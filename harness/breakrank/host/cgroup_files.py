"""The files in which the kernel keeps, limits and counts the control groups of a process: cgroups(7), 1 and 2.

A machine may have both versions at once; then a controller is in one of them. All that is read here is the kernel's
own word, whoever has written it.
"""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

#: The controllers that are used. `freezer` is a controller of version 1, and part of every group of version 2.
CONTROLLERS = ("memory", "cpu", "pids", "freezer")
_UNLIMITED = float("inf")
#: Version 1 writes "no limit" for memory as the greatest number of pages.
_MOST_BYTES = 1 << 62


class Mount(NamedTuple):
    """One hierarchy: its version, where it is mounted, which of its groups is mounted there, and its controllers."""

    version: int
    point: Path
    root: str
    controllers: frozenset[str]


class Bound(NamedTuple):
    """One controller's view of a group: its limit, infinite without one, and how often it had to act.

    Memory: bytes, processes that were killed. CPU: cores, periods in which it was held back. Processes: how many, forks
    refused. Freezer: 0 while it is frozen.
    """

    limit: float
    acted: int


@dataclass(frozen=True)
class Hierarchies:
    """The control groups of the machine whose files lie below `root`."""

    root: Path = Path("/")

    def find(self, pid: int | str, controller: str) -> tuple[Mount, Path] | None:
        """Return the hierarchy that has a controller, and the folder of a process's group in it; None without one."""
        for mount in mounts(self.root):
            if controller in mount.controllers:
                folder = self._folder(pid, controller, mount)
                if folder is not None and (mount.version == 1 or _has(folder, controller)):
                    return mount, folder
        return None

    def bound(self, pid: int, controller: str) -> Bound | None:
        """Return what a controller says of a process's group; None if it says nothing, or the process is gone."""
        found = self.find(pid, controller)
        if found is None:
            return None
        mount, folder = found
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            return read_bound(folder, controller, mount.version)
        # The group of all processes has no files for what cannot be limited there.
        return Bound(_UNLIMITED, 0) if folder == mount.point else None

    def _folder(self, pid: int | str, controller: str, mount: Mount) -> Path | None:
        for line in self._read(f"proc/{pid}/cgroup").splitlines():
            _, names, path = line.split(":", 2)
            if (controller in names.split(",")) if mount.version == 1 else not names:
                inside = path.removeprefix(mount.root) if mount.root != "/" else path
                return mount.point / inside.lstrip("/")
        return None

    def _read(self, path: str) -> str:
        return _text(self.root / path)


@functools.cache
def mounts(root: Path) -> tuple[Mount, ...]:
    """Return the hierarchies that are mounted on the machine whose files lie below `root`, version 1 first."""
    found = []
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        group, point = before.split()[3:5]
        if kind in ("cgroup", "cgroup2"):
            where = root / _unescaped(point).lstrip("/")
            known = frozenset(options.split(",")) & set(CONTROLLERS) if kind == "cgroup" else frozenset(CONTROLLERS)
            found.append(Mount(1 if kind == "cgroup" else 2, where, _unescaped(group), known))
    return tuple(sorted(found, key=lambda mount: mount.version))


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _has(folder: Path, controller: str) -> bool:
    """Return whether a group of version 2 has a controller; its root has no limits of its own."""
    name = {"memory": "memory.max", "cpu": "cpu.max", "pids": "pids.max", "freezer": "cgroup.freeze"}[controller]
    enabled = (folder / "cgroup.controllers").read_text().split() if (folder / "cgroup.controllers").exists() else []
    return (folder / name).exists() or controller in enabled


def read_bound(folder: Path, controller: str, version: int) -> Bound:
    """Return what a controller says of the group in a folder. Raises `OSError`, `ValueError` or `KeyError`."""
    if controller == "memory":
        limit = _number(folder / ("memory.limit_in_bytes" if version == 1 else "memory.max"))
        counted = _counts(folder / ("memory.oom_control" if version == 1 else "memory.events"))
        return Bound(_UNLIMITED if limit > _MOST_BYTES else limit, counted["oom_kill"])
    if controller == "cpu":
        return Bound(_cores(folder, version), _counts(folder / "cpu.stat")["nr_throttled"])
    if controller == "pids":
        return Bound(_number(folder / "pids.max"), _counts(folder / "pids.events")["max"])
    if version == 1:
        frozen = (folder / "freezer.state").read_text().strip() == "FROZEN"
    else:
        frozen = bool(_counts(folder / "cgroup.events")["frozen"])
    return Bound(0.0 if frozen else _UNLIMITED, int(frozen))


def _cores(folder: Path, version: int) -> float:
    if version == 1:
        quota, period = (_number(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    else:
        words = (folder / "cpu.max").read_text().split()
        quota, period = _UNLIMITED if words[0] == "max" else float(words[0]), float(words[1])
    return _UNLIMITED if quota < 0 else quota / period


def _number(path: Path) -> float:
    text = path.read_text().strip()
    return _UNLIMITED if text == "max" else float(text)


def _counts(path: Path) -> dict[str, int]:
    """Return the counters of a file with a name and a number on each line."""
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines() if line)}


def frozen(pid: int) -> bool:
    """Return whether a process stands still in a group that is frozen."""
    bound = Hierarchies().bound(pid, "freezer")
    return bound is not None and bool(bound.acted)


def _unescaped(path: str) -> str:
    """Return a path as it is: mountinfo writes blanks and the like as octal numbers."""
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), path)
