"""Notifications of the system calls that change files, or bring them to disk (seccomp_unotify(2)).

A process that is watched waits in each such call until its watcher has looked, and then does it as ever. Native code is
seen as Python's is: the filter is the kernel's. It stays for the life of the process, and its children inherit it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from typing import NamedTuple

#: The system calls by the numbers of an architecture, with its own mark (linux/audit.h).
_X86_64 = {
    "open": 2,
    "msync": 26,
    "fsync": 74,
    "fdatasync": 75,
    "truncate": 76,
    "rename": 82,
    "mkdir": 83,
    "rmdir": 84,
    "creat": 85,
    "link": 86,
    "unlink": 87,
    "symlink": 88,
    "sync": 162,
    "openat": 257,
    "mkdirat": 258,
    "unlinkat": 263,
    "renameat": 264,
    "linkat": 265,
    "symlinkat": 266,
    "syncfs": 306,
    "renameat2": 316,
    "openat2": 437,
}
_AARCH64 = {
    "mkdirat": 34,
    "unlinkat": 35,
    "symlinkat": 36,
    "linkat": 37,
    "renameat": 38,
    "truncate": 45,
    "openat": 56,
    "sync": 81,
    "fsync": 82,
    "fdatasync": 83,
    "msync": 227,
    "syncfs": 267,
    "renameat2": 276,
    "openat2": 437,
}
_CALLS = {"x86_64": (0xC000003E, _X86_64, 317), "aarch64": (0xC00000B7, _AARCH64, 277)}
#: The places of the flags of `open` and its like among their arguments: to open a file to be read changes nothing.
_FLAGS = {"open": 1, "openat": 2}
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
#: Instructions of a filter (linux/filter.h), and the answers of one.
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_NR_AT, _ARCH_AT, _ARGS_AT = 0, 4, 16
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_PR_SET_NO_NEW_PRIVS = 38
#: ioctl(2) of a listener, and how long its records are: struct seccomp_notif and seccomp_notif_resp.
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_GO_ON = 1
#: The kernel's list of the answers that a filter may give.
_ACTIONS = "/proc/sys/kernel/seccomp/actions_avail"


class Notice(NamedTuple):
    """A system call that a thread is about to make."""

    number: int
    thread: int
    call: str
    args: tuple[int, ...]


def call_named(number: int) -> str:
    """Return the name of a system call that changes files or brings them to disk; empty for any other one."""
    calls = _CALLS.get(platform.machine(), ("", {}, 0))[1]
    return next((name for name, value in calls.items() if value == number), "")


def why_not() -> str:
    """Return why files cannot be watched here, or nothing."""
    try:
        with open(_ACTIONS, encoding="ascii") as file:
            known = "user_notif" in file.read().split()
    except OSError:
        known = False
    if not known:
        return "the kernel has no notifications of seccomp; use Linux 5.6 or later"
    return "" if platform.machine() in _CALLS else f"its system calls are not known for {platform.machine()}"


def watch_writes() -> int:
    """Have every such call of this thread, and of those that it starts, wait for a watcher; return its descriptor.

    Raises `OSError` if the kernel refuses.
    """
    filter_ = _filter()
    buffer = ctypes.create_string_buffer(filter_)
    program = struct.pack("@HxxxxxxP", len(filter_) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)

    def install() -> int:
        number = ctypes.c_long(_CALLS[platform.machine()][2])
        return int(libc.syscall(number, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.c_char_p(program)))

    listener = install()
    if listener < 0 and ctypes.get_errno() == errno.EACCES:
        # Without privileges a filter is allowed only to those that can gain none.
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        listener = install()
    if listener < 0:
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
    return listener


def _filter() -> bytes:
    """Return the filter: calls of the table are told, those that open a file only if it may be changed."""
    mark, calls, _ = _CALLS[platform.machine()]
    words = [(_LOAD, 0, 0, _ARCH_AT), (_EQUAL, 1, 0, mark), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _NR_AT)]
    for name, number in calls.items():
        place = _FLAGS.get(name)
        if place is None:
            words += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
        else:
            words += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, _ARGS_AT + 8 * place), (_ANY_BIT, 0, 1, _CHANGES)]
            words += [(_RETURN, 0, 0, _NOTIFY), (_RETURN, 0, 0, _ALLOW)]
    words.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *word) for word in words)


def receive(listener: int) -> Notice:
    """Return the next call that waits. Raises `OSError` if the thread has gone meanwhile."""
    buffer = bytearray(_NOTICE.size)
    fcntl.ioctl(listener, _RECEIVE, buffer)
    number, thread, _, call, _, _, *args = _NOTICE.unpack(buffer)
    return Notice(number, thread, call_named(call), tuple(args))


def let_go(listener: int, notice: Notice) -> None:
    """Have the call done as ever. Raises `OSError` if the thread has gone meanwhile."""
    fcntl.ioctl(listener, _SEND, bytearray(_ANSWER.pack(notice.number, 0, 0, _GO_ON)))
