"""Find the cause of an error, and the user's line, in what a framework makes of both. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

#: The text before a message: a line of a framework's C++, or TensorFlow's names of functions and nodes.
_BEFORE = re.compile(
    r"^(\[[^\]]*:\d+\]\s*(err == 0)?(\. )?|\{\{function_node .*?\}\}\s*|\(\d+\)\s+[A-Z_ ]+:\s+|"
    r"\[\[\{\{node .*?\}\}\]\]\s*)+"
)
#: The text behind it.
_BEHIND = re.compile(r"\s*(\[\[\{\{node .*|\[Op:\w+\].*)$")
#: The lines of TensorFlow that lead to the message, and are none of it.
_LEADING = re.compile(
    r"^(Graph execution error:|Detected at node .*|Node: '.*'|<stack traceback unavailable>|Original stack trace.*|"
    r"\d+ root error\(s\) found\.?|Traceback \(most recent call last\):|\.\.\.|File \".*|.*\", line \d+, in .*)?$"
)
#: A frame of a traceback, as Python and TensorFlow write it.
_FRAME = re.compile(r"^\s*File \"([^\"]+)\", line (\d+)", re.MULTILINE)
#: The places of code that is not the user's.
_FOREIGN = ("site-packages", "dist-packages", "/lib/python", "<")
#: An end of a connection, as frameworks name it: a socket with both ends, gRPC's address, a bracketed host, IPv4.
_PEER = re.compile(
    r"SocketImpl\([^)]*\)|\bipv[46]:(?:\[[^\]\s]*\]|%5B.*?%5D|[\d.]+)(?::\d+)?|\[[^\]\s]+\]:\d+|"
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\blocalhost:\d+"
)
#: Other numbers that differ from run to run, and the words in their place.
_FLEETING = ((re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "ADDRESS"), (re.compile(r"\bpid(\(s\))? \d+(, \d+)*"), "pid N"))
#: gloo's words for one thing, which it notices while it reads or while it writes: the peer is gone.
_GONE = re.compile(
    r"^(?:(?:Connection closed by peer|Connection reset by peer|Socket closed) PEER|"
    r"(?:Read error|Write error|readv?|writev?|sendmsg|recv) PEER: (?:Connection reset by peer|Broken pipe))$"
)
#: The most letters of a cause.
_MOST = 160


def cause(message: str) -> str:
    """Return the first sentence of a message that says what is wrong; empty if it says nothing.

    It is the same in each run that ends the same: no address, port or pid is in it.
    """
    lines = message.strip().splitlines()
    skipped = False
    for line in lines:
        # The text of a line of code stands below its frame.
        quoted = skipped and line.startswith("    ")
        skipped = bool(_LEADING.match(line.strip())) or quoted
        said = _BEHIND.sub("", _BEFORE.sub("", line.strip()))
        if said and not skipped:
            return _lasting(said)
    return _lasting(lines[0]) if lines else ""


def _lasting(line: str) -> str:
    """Return the first sentence of a line, with a word in the place of all that differs from run to run."""
    said = _PEER.sub("PEER", line).split(". ")[0]
    for pattern, word in _FLEETING:
        said = pattern.sub(word, said)
    return _GONE.sub("Connection lost to PEER", said)[:_MOST]


def users_line(message: str, frames: Iterable[Sequence[Any]]) -> str:
    """Return the innermost line of the user's that an error came through, as `file:line`; empty if none is known.

    If the message has a traceback, as of a graph or of a pipeline of data, that one leads further in.
    """
    inside = [(file, line) for file, line in _FRAME.findall(message)]
    for traceback in (inside, [(str(frame[0]), frame[1]) for frame in frames]):
        own = [f"{os.path.basename(file)}:{line}" for file, line in traceback if not is_foreign(file)]
        if own:
            return own[-1]
    return ""


def is_foreign(file: str) -> bool:
    """Return whether a file is no code of the user's."""
    return any(part in file for part in _FOREIGN)
