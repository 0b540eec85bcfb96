"""Admit scenarios by their ranks: of all pytest processes together, at most three ranks a core run at once.

Ranks wait for each other, for their start, for time-outs and for their end a great part of the time. Of a run of the
catalogue under `-n 2`, two cores were idle for 45 % with one rank a core, and with two for 25 %: a case of four ranks
then ran alone, and one of three, though it waited for a deadline.

A counting semaphore of token files, held by flock: the kernel gives the tokens of a dead process back. To take
tokens, a scenario first takes the gate, so that a scenario of many ranks is not starved by many of few.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.files.private import make_part

#: The tokens of a core.
_PER_CORE = 3
_POLL_S = 0.02


@contextlib.contextmanager
def hold(slots: Path, ranks: int, tokens: int | None = None) -> Iterator[None]:
    """Hold `ranks` tokens of the folder `slots` for the length of the block; wait until they are free.

    There are as many as `tokens` (default: three for each core of this machine), or as `ranks` if that is more. Raises
    `BreakrankError` if the folder cannot be used.
    """
    capacity = max(tokens or _PER_CORE * (os.cpu_count() or 1), ranks)
    held: list[int] = []
    gate = _open(slots / "gate")
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        try:
            _take(slots, ranks, capacity, held)
        finally:
            _release(gate)
        yield
    finally:
        for token in held:
            _release(token)


def _take(slots: Path, ranks: int, capacity: int, held: list[int]) -> None:
    """Lock free tokens, and wait for more, until `held` has `ranks` of them. The caller holds the gate."""
    waiting = [_open(slots / f"token-{n}") for n in range(capacity)]
    try:
        while True:
            for token in list(waiting):
                if len(held) == ranks:
                    return
                if _try_lock(token):
                    waiting.remove(token)
                    held.append(token)
            if len(held) == ranks:
                return
            time.sleep(_POLL_S)
    finally:
        for token in waiting:
            os.close(token)


def _open(path: Path) -> int:
    """Open a file to lock, and make it and its folder if need be. Raises `BreakrankError`."""
    try:
        make_part(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        cure = "set the ini option scenario_runs to a folder of yours"
        raise BreakrankError(f"cannot write to {path.parent}: {error.strerror}; {cure}") from None


def _try_lock(token: int) -> bool:
    """Return whether the token was free and is ours now."""
    try:
        fcntl.flock(token, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _release(token: int) -> None:
    """Give a lock back. Unlocked by name, since a child forked meanwhile may share the descriptor."""
    fcntl.flock(token, fcntl.LOCK_UN)
    os.close(token)
