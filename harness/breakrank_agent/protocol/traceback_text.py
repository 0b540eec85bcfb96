"""Tracebacks as text: an exception of another process comes as a message that holds the traceback from there.

So say `torch.multiprocessing.spawn` ("-- Process 1 terminated with the following error:"), the loaders of torch
("Original Traceback"), `concurrent.futures` and pools (a cause of the type `_RemoteTraceback`), and torch elastic.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

_BEGINS = re.compile(r"^(.*)Traceback \(most recent call last\):[ \t]*$", re.MULTILINE)
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)(?:, in (.+))?')
#: The type of an exception as Python prints it, and its message.
_ERROR = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*)(?:: ?(.*))?$")
#: Lines that end the message of an exception: another one follows, or a table of torch elastic's.
_OVER = re.compile(
    r'\s*("""|The above exception was the direct cause|During handling of the above|-{20,}|={20,}|\[\w+\]:$|Root Cause)'
)
#: The most bytes of a text that are looked at, from its end.
_MOST = 1 << 18


class Told(NamedTuple):
    """An exception as a traceback tells it; `frames` are (file, line, function), the innermost last."""

    type: str
    message: str
    frames: list[list[object]]


def innermost(text: str) -> Optional[Told]:
    """Return the exception that the last traceback in a text ends with; None if there is no whole one."""
    found = list(_BEGINS.finditer(text, max(0, len(text) - _MOST)))
    if not found:
        return None
    lines = _bare(text[found[-1].end() :].splitlines()[1:], found[-1][1])
    frames: list[list[object]] = []
    for line in lines:
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append([frame[1], int(frame[2]), frame[3] or ""])
        elif line[:1].strip():
            error = _ERROR.match(line)
            if error is None:
                return None
            rest = itertools.takewhile(lambda more: not _OVER.match(more), lines)
            return Told(error[1].rpartition(".")[2], "\n".join([error[2] or "", *rest]).strip(), frames)
    return None


def _bare(lines: Sequence[str], before: str) -> Iterator[str]:
    """Yield lines without what stands before each, given what stands `before` the first: `[rank1]: `, or a margin."""
    repeated = bool(before.strip()) and bool(lines) and lines[0].startswith(before)
    margin = before if repeated else before[: len(before) - len(before.lstrip())]
    for line in lines:
        if line.startswith(margin):
            yield line[len(margin) :]
        elif repeated and line.strip():
            # Another rank speaks, or nobody.
            return
        else:
            yield line.lstrip()
