"""A terminal of a stated width, and the rows that a program writes on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from pathlib import Path

#: Sequences that move the cursor or colour a text, and take no cell.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def written_on(columns: int, command: list[str], folder: Path, press: str = "", **environment: str) -> str:
    """Run a command on a pseudo-terminal, and return all that it wrote there.

    Ctrl-C is pressed once, as soon as `press` has been written.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "LINES", "NO_COLOR", "PY_COLORS", "CI")
    }
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**kept, "TERM": "xterm", **environment},
        preexec_fn=_owns,
    )
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # EIO: the last writer is gone
        while data := os.read(ours, 65536):
            written += data
            if press and press.encode() in written:
                press = ""
                os.write(ours, b"\x03")
    process.wait(300)
    os.close(ours)
    return written.decode()


def _owns() -> None:
    """Make the terminal the one whose Ctrl-C reaches this process, which minds it even where its parents do not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def rows(written: str) -> list[str]:
    """Return the lines that a terminal got, without what colours them; of a line that was rewritten, each version."""
    return [CONTROL.sub("", row) for line in written.split("\n") for row in re.split(r"\r", line)]
