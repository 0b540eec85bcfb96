"""Answers of containers and images, checked before they are believed: they may hold anybody's programs."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import socket
import stat
import struct
import tarfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from breakrank.runners.zygotes import READY_S
from breakrank_agent.kernel.rooted import open_root, opened, resolve
from breakrank_agent.protocol.entry import PACKET

#: As many bytes of a file such as passwd(5) are read, and of what a container prints; as many may a variable have.
_TABLE_BYTES, _PRINTED_BYTES, _VALUE_BYTES = 1 << 20, 1 << 20, 1 << 15
#: As many characters of what is said in an error are shown.
_SHOWN = 300
#: Errors that JSON raises, of any text.
_MALFORMED = (ValueError, RecursionError)


def call(pid: int, path: str, lives: Callable[[], bool], family: Callable[[], Collection[int]]) -> socket.socket | None:
    """Return the line to a zygote that listens at `path` in the root of the process `pid`, as soon as it does.

    None if it ends, or does not listen in time. Raises `OSError` if something else is there, as when another container
    has put a link to a socket of the machine in its place: who answers must be the process, or of its `family`.
    """
    until = time.monotonic() + READY_S
    while lives() and time.monotonic() < until:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PACKET)
        line.settimeout(READY_S)
        try:
            with opened(open_root(pid)) as root, opened(resolve(root, path, links=False)) as found:
                if not stat.S_ISSOCK(os.fstat(found).st_mode):
                    raise OSError(errno.ENOTSOCK, f"{path} is no socket")
                line.connect(f"/proc/self/fd/{found}")
            if _peer(line) not in {pid, *family()}:
                raise OSError(errno.ENOTSOCK, f"another process answers at {path}")
            return line
        except OSError as error:
            line.close()
            if error.errno == errno.ELOOP:
                raise OSError(f"{path} is a symbolic link") from None
            if error.errno == errno.ENOTSOCK:
                raise
            time.sleep(0.005)
    return None


def _peer(line: socket.socket) -> int:
    """Return who listens at the other end of a line (unix(7), SO_PEERCRED)."""
    return int(struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def answer(data: bytes) -> dict[str, Any]:
    """Return what a zygote has answered: `pid`, a number, or `error`, a line."""
    if not data:
        return {"error": "its first process is gone"}
    with contextlib.suppress(*_MALFORMED):
        said = json.loads(data)
        if isinstance(said, dict):
            pid, error = said.get("pid"), said.get("error")
            if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0:
                return {"pid": pid}
            if isinstance(error, str):
                return {"error": _line(error)}
    return {"error": "its zygote answers what no zygote does"}


def is_ready(data: bytes) -> bool:
    """Return whether a zygote says that it is ready, and has one thread."""
    with contextlib.suppress(*_MALFORMED):
        said = json.loads(data)
        return isinstance(said, dict) and said.get("ready") == 1
    return False


def contents(printed: bytes) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the versions and the programs that an image says that it has. Raises `ValueError`."""
    try:
        found, programs = json.loads(printed)
        words = [*found.keys(), *found.values(), *programs]
    except (*_MALFORMED, TypeError, AttributeError):
        raise ValueError("it does not say what it has") from None
    if not all(isinstance(word, str) for word in words) or "python" not in found:
        raise ValueError("it does not say what it has")
    return found, programs


def table(chunks: Iterable[bytes]) -> list[list[str]]:
    """Return the fields of each line of a file such as passwd(5), which comes as an archive; none of what is no file.

    Raises `ValueError` if it is too large.
    """
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > _TABLE_BYTES:
            raise ValueError(f"it is larger than {_TABLE_BYTES >> 20} MiB")
    with contextlib.suppress(tarfile.TarError), tarfile.open(fileobj=io.BytesIO(bytes(data))) as archive:
        member = archive.next()
        file = archive.extractfile(member) if member is not None and member.isreg() else None
        text = file.read().decode(errors="replace") if file else ""
        return [fields for line in text.splitlines() if len(fields := line.split(":")) > 3]
    return []


def number(text: str, what: str) -> int:
    """Return the number of a user or group. Raises `ValueError` for what is none."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32 - 1:
        raise ValueError(f"the image names no {what} that there is: {text[:_SHOWN]!r}")
    return int(text)


def variables(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return those of the variables that are there, and not too long to be handed on."""
    found = {name: environment[name] for name in names if name in environment}
    return {name: value for name, value in found.items() if len(os.fsencode(value)) <= _VALUE_BYTES}


def last_line(printed: Iterable[bytes]) -> str:
    """Return the last line that a container has printed."""
    kept = b""
    for part in printed:
        kept = (kept + part)[-_PRINTED_BYTES:]
    return _line((kept.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1])


def _line(text: str) -> str:
    """Return what somebody says as one line that can be shown."""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_SHOWN] or "nothing"
