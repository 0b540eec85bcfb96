"""Holds a mount namespace in which a folder is a private, copy-on-write view of itself.

It is started as a script (`python -I -S holder.py ORDER`), with the standard library alone. ORDER is a JSON object with
the keys of `Order`. Files that are written below the folder go to `upper` (an overlay, see overlayfs in the kernel's
documentation). Mounts below the folder are carried into the view, each by the first way that works: an
overlay of its own, a place that can only be read, or the mount as it is. The runs are not there in the view; what ranks
must reach of ours, the agent's copy and the lines of this run, lies at `place` instead.

It says `ready` and what was carried how, as JSON, or why there is no view, and waits until it is killed; the namespace
lives as long as a process is in it. Without root it takes a user namespace, too, in which everybody keeps the number
that they had.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import stat
import sys
from typing import NamedTuple

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 0x1000, 0x4000, 0x40000
#: Kinds of file systems that hold no files of anybody's: they are the kernel's, or one for each device.
KERNELS_OWN = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"),
        *("fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "sysfs", "tracefs"),
    )
)
#: The ways in which a mount below the folder came into the view.
OVERLAID, READ_ONLY, AS_IT_IS, UNCHANGED = "overlaid", "read only", "as it is", "unchanged"
#: Flags of a mount that a remount has to name again (mount(2)), as /proc/self/mountinfo calls them.
_KEPT_FLAGS = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}

_libc = ctypes.CDLL(None, use_errno=True)


class Order(NamedTuple):
    """The paths of which a view is made.

    `folder` is what the view is of, `upper` takes what is written, `scratch` is an empty folder beside it. `runs` is
    not to be seen. At `place` lie `agent`, under its own name, and `lines`.
    """

    folder: str
    upper: str
    scratch: str
    runs: str
    place: str
    agent: str
    lines: str


class Mount(NamedTuple):
    """A mount below the folder: where, what kind of file system, its flags, and a descriptor of its root."""

    path: str
    kind: str
    flags: frozenset[str]
    root: int


def main(order: Order) -> None:
    """Make the view, say so, and wait."""
    try:
        _unshare()
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        carried = _make_view(order)
    except OSError as error:
        print(f"{error.strerror} ({error.filename})", flush=True)
        sys.exit(1)
    print("ready", json.dumps(carried), flush=True)
    signal.pause()


def _unshare() -> None:
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNS if uid == 0 else CLONE_NEWNS | CLONE_NEWUSER
    _check(_libc.unshare(flags), "a mount namespace")
    if uid == 0:
        return
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _make_view(order: Order) -> list[tuple[str, str, str]]:
    """Mount everything; return of each mount below the folder its path from there, its kind, and how it was carried."""
    folder, runs = os.path.realpath(order.folder), os.path.realpath(order.runs)
    # All is opened, and made, before the view covers it.
    inner = mounts_below(folder, but=runs)
    layers = [_layers(one.root, os.path.join(order.scratch, str(number))) for number, one in enumerate(inner)]
    own = _layers(os.open(folder, os.O_PATH), os.path.join(order.scratch, "own"), order.upper)
    ours = [os.open(path, os.O_PATH) for path in (order.agent, order.lines)]
    _leave_out(folder, runs, order.upper)
    _overlay(folder, own)
    carried = [
        (os.path.relpath(one.path, folder), one.kind, _carry(one, its)) for one, its in zip(inner, layers, strict=True)
    ]
    _lay_out(order, *ours)
    return carried


def mounts_below(folder: str, but: str = "") -> list[Mount]:
    """Return the mounts that are seen below a folder, the outer ones first; those at or below `but` are left out."""
    seen: dict[str, tuple[str, str, frozenset[str]]] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words, _, rest = line.rstrip("\n").partition(" - ")
            number, _, _, _, place, options = words.split(" ")[:6]
            path = _unescaped(place)
            if _is_below(path, folder) and path != but and not _is_below(path, but):
                # Of several at one place the last is seen.
                seen[path] = (number, rest.split(" ")[0], frozenset(options.split(",")))
    found = []
    for path, (number, kind, flags) in sorted(seen.items(), key=lambda one: one[0].count("/")):
        try:
            root = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            continue
        # A mount that an outer one hides is not seen: something else is there, or nothing.
        with open(f"/proc/self/fdinfo/{root}") as file:
            if f"mnt_id:\t{number}\n" in file.read():
                found.append(Mount(path, kind, flags, root))
    return found


def _is_below(path: str, folder: str) -> bool:
    return bool(folder) and path.startswith(folder.rstrip("/") + "/")


def _unescaped(word: str) -> str:
    """Return a path of mountinfo, where blanks and the like are three octal digits (proc(5))."""
    raw = os.fsencode(word)
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), raw))


def _leave_out(folder: str, runs: str, upper: str) -> None:
    """Have the view begin without the runs, if they lie in the folder: in an upper layer, a device hides a name."""
    if not _is_below(runs, folder):
        return
    there, above = folder, upper
    *parents, name = os.path.relpath(runs, folder).split("/")
    for parent in parents:
        there, above = os.path.join(there, parent), os.path.join(above, parent)
        like = os.stat(there)
        os.makedirs(above, exist_ok=True)
        os.chown(above, like.st_uid, like.st_gid)
        os.chmod(above, stat.S_IMODE(like.st_mode))
    os.mknod(os.path.join(above, name), stat.S_IFCHR, os.makedev(0, 0))


def _layers(lower: int, scratch: str, upper: str = "") -> dict[str, int]:
    """Make what an overlay of `lower` takes, in a new folder; return its layers as descriptors.

    A new `upper` has the owner and the mode of the lower one, since an overlay shows its own.
    """
    work = os.path.join(scratch, "work")
    os.makedirs(work)
    if not upper:
        upper = os.path.join(scratch, "upper")
        os.mkdir(upper)
        like = os.stat(lower)
        os.chown(upper, like.st_uid, like.st_gid)
        os.chmod(upper, stat.S_IMODE(like.st_mode))
    return {"lowerdir": lower, "upperdir": os.open(upper, os.O_PATH), "workdir": os.open(work, os.O_PATH)}


def _overlay(target: str, layers: dict[str, int]) -> None:
    """Mount an overlay at `target`. Its layers are named by descriptors: no name has to be escaped."""
    options = ",".join(f"{name}=/proc/self/fd/{descriptor}" for name, descriptor in layers.items())
    _mount("overlay", target, "overlay", 0, options if os.getuid() == 0 else options + ",userxattr")


def _carry(mount: Mount, layers: dict[str, int]) -> str:
    """Carry a mount into the view; return how. Its kind decides which ways are tried."""
    holds_files, changes = mount.kind not in KERNELS_OWN, "ro" not in mount.flags
    if holds_files and changes and stat.S_ISDIR(os.stat(mount.root).st_mode):
        # Some file systems can be no layer of an overlay.
        with contextlib.suppress(OSError):
            _overlay(mount.path, layers)
            return OVERLAID
    _mount(f"/proc/self/fd/{mount.root}", mount.path, None, MS_BIND)
    if not holds_files:
        return AS_IT_IS
    if not changes:
        return UNCHANGED
    kept = sum(value for name, value in _KEPT_FLAGS.items() if name in mount.flags)
    try:
        _mount(None, mount.path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | kept)
    except OSError:
        return AS_IT_IS
    return READ_ONLY


def _lay_out(order: Order, agent: int, lines: int) -> None:
    """Lay out what ranks must reach of ours."""
    _mount("breakrank", order.place, "tmpfs", 0, "mode=755")
    copy, live = (os.path.join(order.place, name) for name in (os.path.basename(order.agent), "lines"))
    for path, root in ((copy, agent), (live, lines)):
        os.mkdir(path)
        _mount(f"/proc/self/fd/{root}", path, None, MS_BIND)
    for path in (copy, order.place):
        _mount(None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    _check(_libc.mount(words[0], words[1], words[2], flags, data), f"mounting {kind or source} at {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main(Order(**json.loads(sys.argv[1])))
