"""Holds a mount namespace in which a folder is a private, copy-on-write view of itself.

It is started as a script (`python -I -S holder.py FOLDER UPPER SCRATCH KEEP`), with the standard library alone: what is
written below FOLDER goes to UPPER (an overlay, see overlayfs in the kernel's documentation), except below KEEP, which
stays what it is. It says `ready`, or why not, and waits until it is killed; the namespace lives as long as a process is
in it. Without root it takes a user namespace, too, in which everybody keeps the number that they had.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def main(folder: str, upper: str, scratch: str, keep: str) -> None:
    """Make the view, say so, and wait."""
    try:
        _unshare()
        _mount(None, "/", None, MS_REC | MS_PRIVATE, None)
        # Taken before the view covers it.
        kept = os.open(keep, os.O_PATH)
        options = f"lowerdir={_escaped(folder)},upperdir={_escaped(upper)},workdir={_escaped(scratch)}"
        _mount("overlay", folder, "overlay", 0, options if os.getuid() == 0 else options + ",userxattr")
        os.makedirs(keep, exist_ok=True)
        _mount(f"/proc/self/fd/{kept}", keep, None, MS_BIND, None)
    except OSError as error:
        print(f"{error.strerror} ({error.filename})", flush=True)
        sys.exit(1)
    print("ready", flush=True)
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


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    _check(_libc.mount(words[0], words[1], words[2], flags, data), f"mounting {kind or source} at {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


if __name__ == "__main__":
    main(*sys.argv[1:5])
