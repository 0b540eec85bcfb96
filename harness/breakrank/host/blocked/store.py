"""Recognise a TCPStore that nobody asks for anything, and threads that wait for an answer.

The server sleeps in epoll without a time-out. A client that waits for a key sleeps in poll(2) on its one socket; rank
0 asks again and again, with sleeps between, how many have come.
"""

from __future__ import annotations

from breakrank.host.blocked.threads import EPOLL, POLL, State, Thread

#: Stands for no time-out in the fourth argument of epoll_wait.
_FOREVER = 0xFFFFFFFF


def state(thread: Thread, call: str) -> State | None:
    """Return what the store's server does, or the main thread while a group is set up."""
    if thread.name.startswith("pt_tcpstore"):
        asleep = thread.state == "S" and thread.call in EPOLL and thread.arguments[3] & _FOREVER == _FOREVER
        return State.WAITS if asleep else State.MOVES
    if thread.main and call == "setup" and thread.call in POLL and thread.arguments[1] == 1:
        return State.WAITS
    return None
