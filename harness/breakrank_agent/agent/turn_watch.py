"""Watch for a holder of the turn that waits for something outside the schedule, and let others move on.

A script may wait for a socket, a store, a child or a native thread, and for good if what it waits for is parked. Only
a script is looked at so: our own programs wait for nothing that is not under the schedule.
"""

from __future__ import annotations

import time
from _thread import start_new_thread
from typing import Callable, Optional

from breakrank_agent.agent.thread_scheduler import Turns

#: The seconds between two looks at the holder, and the number of equal looks that say that it waits.
_PAUSE_S = 0.05
_LOOKS = 4


def look_out(turns: Turns) -> None:
    """Look at the holder of the turn, for as long as the rank lives."""
    start_new_thread(_watch, (turns, time.sleep))


def _watch(turns: Turns, sleep: Callable[[float], None]) -> None:
    last: Optional[tuple[int, int, int]] = None
    equal = 0
    while True:
        sleep(_PAUSE_S)
        native, moves = turns.holding()
        switches = _switches(native)
        now = None if switches is None else (native, moves, switches)
        equal = equal + 1 if now is not None and now == last else 0
        last = now
        if equal >= _LOOKS:
            equal = 0
            turns.take_over(moves)


def _switches(native: int) -> Optional[int]:
    """Return how often a thread that sleeps now was scheduled; None for one that runs, or is none."""
    try:
        with open(f"/proc/self/task/{native}/status", encoding="ascii", errors="replace") as file:
            fields = dict(line.rstrip("\n").split(":", 1) for line in file if ":" in line)
    except OSError:
        return None
    if not fields["State"].strip().startswith("S"):
        return None
    return int(fields["voluntary_ctxt_switches"]) + int(fields["nonvoluntary_ctxt_switches"])
