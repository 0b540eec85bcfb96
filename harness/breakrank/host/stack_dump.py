"""The stacks of processes of this machine: Python's, which each writes itself, and those that are read from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from breakrank.host.stacks import print_stacks
from breakrank_agent.protocol.entry import STACKS_SIGNAL

_MOST = 20000
_TICK_S = 0.02


def dump_stacks(
    send: Callable[[int, int], object],
    pids: Mapping[str, int],
    files: Mapping[str, Path],
    stopped: Collection[str],
    native: bool,
) -> dict[str, str]:
    """Return the stacks of processes as text, by what they are called; `send(pid, signal)` asks one to write its own.

    `files` are those that they write into, if they are there. Of the `stopped` ones stacks are only read, native ones,
    if they are wanted, only of the others.
    """
    texts, waiting = {}, {}
    for name, pid in pids.items():
        if name not in stopped and name in files and files[name].exists():
            send(pid, STACKS_SIGNAL)
            waiting[name] = files[name]
    for name, path in waiting.items():
        texts[name] = _settled_text(path)[-_MOST:]
    # A stopped process cannot answer, but can be read.
    read = print_stacks([pids[name] for name in stopped], native=False)
    for name in stopped:
        texts[name] = f"(the process is stopped)\n{read.get(pids[name], '')[-_MOST:]}".rstrip()
    if native:
        others = {name: pid for name, pid in pids.items() if name not in stopped}
        printed = print_stacks(list(others.values()), native=True)
        for name, pid in others.items():
            texts[name] = "\n\n".join(filter(None, (texts.get(name, ""), printed.get(pid, "")[-_MOST:])))
    return texts


def _settled_text(path: Path, limit_s: float = 0.5) -> str:
    """Return the text of a file once it is no longer growing, or what is there after `limit_s`."""
    until, size = time.monotonic() + limit_s, 0
    while time.monotonic() < until:
        time.sleep(_TICK_S)
        now = path.stat().st_size
        if now and now == size:
            break
        size = now
    return path.read_text(errors="replace")
