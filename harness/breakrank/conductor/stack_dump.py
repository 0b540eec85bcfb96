"""The stacks of ranks that are about to be ended: Python's always, native ones where the log does not say enough."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from breakrank.conductor.rank import Rank
from breakrank.host.blocked import is_stopped
from breakrank.host.session import Session
from breakrank.host.stacks import print_stacks
from breakrank_agent.protocol.entry import STACKS_SIGNAL

#: Causes of which the collective log is no explanation: C or C++ may be what does not come back.
_UNEXPLAINED = ("deadline", "deadlock", "blocked in a lock", "GIL deadlock")
_MOST = 20000
_TICK_S = 0.02


def take_stacks(session: Session, folder: Path, ranks: Mapping[int, Rank], why: str) -> dict[int, str]:
    """Return the stacks of live ranks as text. `folder` is that of the lines, into which each dumps its own."""
    texts, waiting = {}, {}
    stopped = {n: r.process.pid for n, r in ranks.items() if is_stopped(r.process.pid)}
    for number, rank in ranks.items():
        path = folder / f"rank-{number}.stacks"
        if number not in stopped and path.exists():
            session.signal(rank.process.pid, STACKS_SIGNAL)
            waiting[number] = path
    for number, path in waiting.items():
        texts[number] = _settled_text(path)[-_MOST:]
    # A stopped process cannot answer, but can be read.
    read = print_stacks(list(stopped.values()), native=False)
    for number, pid in stopped.items():
        texts[number] = f"(the process is stopped)\n{read.get(pid, '')[-_MOST:]}".rstrip()
    if why in _UNEXPLAINED:
        pids = {n: r.process.pid for n, r in ranks.items() if n not in stopped}
        native = print_stacks(list(pids.values()), native=True)
        for number, pid in pids.items():
            texts[number] = "\n\n".join(filter(None, (texts.get(number, ""), native.get(pid, "")[-_MOST:])))
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
