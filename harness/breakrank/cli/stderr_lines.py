"""Lines of `watch` and `check` on stderr, which may be a job's, too: to say one never raises nor waits for a reader."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterable

#: The most that is written at once: so much a pipe takes whole where it takes anything (pipe(7), PIPE_BUF).
_PIECE = 4096
_ERASE = "\r\x1b[K"


def keep_standard_descriptors() -> None:
    """Take the numbers 0, 1 and 2 where they are closed, so that nothing of ours has one of them.

    Descriptors that are opened here are closed again in all that we start, which finds them closed as ever.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, which is this one.
            os.open(os.devnull, os.O_RDWR)


def is_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def say(lines: Iterable[str]) -> None:
    """Write lines, each with our name before it."""
    for line in lines:
        write(f"breakrank: {line}\n")


def rewrite(line: str) -> None:
    """Write a line over the one before, without an end."""
    write(f"{_ERASE}{line}")


def write(text: str) -> None:
    """Write text where that is possible at once; else it is lost."""
    stream = sys.stderr
    if stream is None:
        return
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        # Somebody has put something else in its place.
        with contextlib.suppress(OSError, ValueError):
            stream.write(text)
        return
    with contextlib.suppress(OSError, ValueError):
        data = text.encode(errors="replace")
        while data and _takes(descriptor):
            data = data[os.write(descriptor, data[:_PIECE]) :]


def _takes(descriptor: int) -> bool:
    """Return whether a write would not block: a reader that has stopped reading must not stop the job."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))
