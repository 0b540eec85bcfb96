"""Control groups of a session: one for each rank that a strike limits, below our own, with the session's id.

A rank, and whatever it has started, is put into its group when the first limit is asked for: what it has until then
stays on its old group's account. Versions 1 and 2 of cgroups(7), with the same words for both. The supervisor removes
the groups when their owner is gone, and the next session those of a supervisor that is gone, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from breakrank.host.cgroup_files import CONTROLLERS, Bound, Hierarchies, read_bound
from breakrank.host.session import Session
from breakrank.host.session_name import is_alive
from breakrank.host.supervisor import descendants

#: The beginning of the name of a session's folder.
PREFIX = "breakrank-"
#: Seconds for a group to be empty once the processes in it were killed. A limit, no more.
_EMPTY_S = 2.0
_PERIOD_US = 100_000


@dataclass(frozen=True)
class Group:
    """One group: its folder for each controller, and the version of its hierarchy."""

    folders: Mapping[str, tuple[Path, int]]

    def add(self, pid: int) -> None:
        """Put a process into the group. Raises `OSError`."""
        for folder in self._all():
            (folder / "cgroup.procs").write_text(str(pid))

    def limit_memory(self, size: int) -> None:
        """Limit what is taken from now on to `size` bytes, and let nothing be swapped. Raises `OSError`."""
        folder, version = self._in("memory")
        if version == 2:
            _write(folder, "memory.swap.max", "0")
            _write(folder, "memory.max", str(size), must=True)
            return
        _write(folder, "memory.limit_in_bytes", str(size), must=True)
        _write(folder, "memory.memsw.limit_in_bytes", str(size))

    def limit_cpu(self, percent: float) -> None:
        """Limit the group to `percent` of one core. Raises `OSError`."""
        folder, version = self._in("cpu")
        quota = max(1000, int(_PERIOD_US * percent / 100))
        if version == 2:
            _write(folder, "cpu.max", f"{quota} {_PERIOD_US}", must=True)
            return
        _write(folder, "cpu.cfs_period_us", str(_PERIOD_US), must=True)
        _write(folder, "cpu.cfs_quota_us", str(quota), must=True)

    def free_cpu(self) -> None:
        """Let the group have every core again. Raises `OSError`."""
        folder, version = self._in("cpu")
        _write(folder, "cpu.max" if version == 2 else "cpu.cfs_quota_us", "max" if version == 2 else "-1", must=True)

    def limit_processes(self, headroom: int) -> None:
        """Limit the group to `headroom` processes and threads more than it has, or less. Raises `OSError`."""
        folder, _ = self._in("pids")
        count = int((folder / "pids.current").read_text()) + headroom
        _write(folder, "pids.max", str(max(0, count)), must=True)

    def freeze(self) -> None:
        """Have everything in the group stand still. Raises `OSError`."""
        folder, version = self._in("freezer")
        _write(folder, "cgroup.freeze" if version == 2 else "freezer.state", "1" if version == 2 else "FROZEN", True)

    def thaw(self) -> None:
        """Let everything go on; what was killed meanwhile ends at once. Raises `OSError`."""
        folder, version = self._in("freezer")
        _write(folder, "cgroup.freeze" if version == 2 else "freezer.state", "0" if version == 2 else "THAWED", True)

    def acted(self) -> dict[str, int]:
        """Return how often each controller had to act, of those that had to."""
        bounds: dict[str, Bound] = {}
        for controller, (folder, version) in self.folders.items():
            with contextlib.suppress(OSError, ValueError, KeyError):
                bounds[controller] = read_bound(folder, controller, version)
        return {name: bound.acted for name, bound in bounds.items() if bound.acted and name != "freezer"}

    def remove(self) -> None:
        """Remove the group, in which nothing lives any more; what is still ending is waited for."""
        for folder in self._all():
            remove_folder(folder)

    def _in(self, controller: str) -> tuple[Path, int]:
        if controller not in self.folders:
            raise OSError(f"there is no control group with the controller {controller} here")
        return self.folders[controller]

    def _all(self) -> list[Path]:
        return list(dict.fromkeys(folder for folder, _ in self.folders.values()))


@dataclass
class Groups:
    """The groups of one session's ranks, by rank. `machine` is where the kernel keeps them."""

    session: Session
    machine: Hierarchies = field(default_factory=Hierarchies)
    _made: dict[int, Group] = field(default_factory=dict)
    _parents: list[Path] = field(default_factory=list)

    def of(self, rank: int, pid: int) -> Group:
        """Return the group of a rank; when it is first asked for, the rank's processes go into it. Raises `OSError`."""
        if rank not in self._made:
            places = {c: found for c in CONTROLLERS if (found := find_parent(self.machine, c)) is not None}
            named = {c: (p / f"{PREFIX}{self.session.id}", version) for c, (p, version) in places.items()}
            self._parents = list(dict.fromkeys(folder for folder, _ in named.values()))
            leaves = {c: (folder / f"rank-{rank}", version) for c, (folder, version) in named.items()}
            # The supervisor knows of them before they are there.
            self.session.own([str(f) for f in (*self._parents, *(leaf for leaf, _ in leaves.values()))])
            self._made[rank] = make_group(leaves)
            for one in (pid, *descendants(pid)):
                with contextlib.suppress(ProcessLookupError):
                    self._made[rank].add(one)
        return self._made[rank]

    def acted(self, rank: int) -> dict[str, int]:
        """Return how often each controller of a rank's group had to act."""
        return self._made[rank].acted() if rank in self._made else {}

    def remove(self) -> None:
        """Remove all of them."""
        for group in self._made.values():
            group.remove()
        self._made.clear()
        for folder in self._parents:
            remove_folder(folder)
        self._parents.clear()


def find_parent(machine: Hierarchies, controller: str) -> tuple[Path, int] | None:
    """Return the folder below which groups with a controller can be made, and its version; None without one.

    In version 1 it is our own group's. In version 2 a group that has processes gives no controllers on (cgroups(7), "no
    internal processes"): it is the nearest above our own that we may write to and that does, or can.
    """
    found = machine.find("self", controller)
    if found is None:
        return None
    mount, own = found
    if mount.version == 1:
        return (own, 1) if os.access(own, os.W_OK) else None
    for folder in (own, *own.parents):
        if os.access(folder, os.W_OK) and _gives_on(folder, controller):
            return folder, 2
        if folder == mount.point:
            break
    return None


def _gives_on(folder: Path, controller: str) -> bool:
    """Return whether groups below a folder have a controller, which is given on here if that can be done."""
    if controller == "freezer":
        return True
    control = folder / "cgroup.subtree_control"
    with contextlib.suppress(OSError):
        if controller not in control.read_text().split():
            control.write_text(f"+{controller}")
        return controller in control.read_text().split()
    return False


def make_group(leaves: Mapping[str, tuple[Path, int]]) -> Group:
    """Make the folders of a group, and those above them. Raises `OSError`."""
    for controller, (folder, version) in leaves.items():
        folder.parent.mkdir(exist_ok=True)
        if version == 2 and not _gives_on(folder.parent, controller):
            raise OSError(f"{folder.parent} does not give on the controller {controller}")
        folder.mkdir(exist_ok=True)
    return Group(leaves)


def why_not(controller: str, machine: Hierarchies | None = None) -> str:
    """Return why no group with a controller can be made here, with the cure: one is made, and removed."""
    machine = machine or Hierarchies()
    if machine.find("self", controller) is None:
        return f"no hierarchy with the controller {controller} is mounted; mount one at /sys/fs/cgroup, or boot with it"
    found = find_parent(machine, controller)
    cure = "run as root, or start pytest under systemd-run --user --scope -p Delegate=yes"
    if found is None:
        return f"groups with the controller {controller} cannot be made by us; {cure}"
    tried = found[0] / f"{PREFIX}{os.getpid()}-tried"
    try:
        tried.mkdir()
        tried.rmdir()
    except OSError as error:
        return f"{found[0]} refuses ({error.strerror}); {cure}"
    return ""


def sweep(machine: Hierarchies | None = None) -> int:
    """Remove the groups of sessions whose owner is dead, and end what is in them; return how many sessions had any."""
    machine = machine or Hierarchies()
    parents = {found[0] for c in CONTROLLERS if (found := find_parent(machine, c)) is not None}
    dead = [
        folder
        for parent in sorted(parents)
        for folder in parent.glob(f"{PREFIX}*-*-*")
        if not is_alive(folder.name.removeprefix(PREFIX))
    ]
    groups = [group for folder in dead for group in (*(path for path in folder.glob("*") if path.is_dir()), folder)]
    # A process is in a group of each hierarchy of version 1, and frozen in one of them.
    for work in (_kill, _thaw, remove_folder):
        for group in groups:
            work(group)
    return len({folder.name for folder in dead})


def _kill(folder: Path) -> None:
    """Kill what is in a group."""
    with contextlib.suppress(OSError, ValueError):
        for pid in map(int, (folder / "cgroup.procs").read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _thaw(folder: Path) -> None:
    """Let what was killed in a group end."""
    for name, word in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        _write(folder, name, word)


def remove_folder(folder: Path) -> None:
    """Remove a group's folder. The kernel refuses for some milliseconds after the end of the last process in it."""
    until = time.monotonic() + _EMPTY_S
    while folder.is_dir():
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        if time.monotonic() > until:
            return
        time.sleep(0.002)


def _write(folder: Path, name: str, text: str, must: bool = False) -> None:
    """Write to one of a group's files; where it is not there, or refuses, that matters only if it `must`."""
    with contextlib.nullcontext() if must else contextlib.suppress(OSError):
        if must or (folder / name).exists():
            (folder / name).write_text(text)
