"""Recognise gloo's threads that wait because no peer sends anything.

The loop thread sleeps in epoll_wait for 10 ms at a time. The threads that run the collectives, and a main thread in a
send or recv, wait for it with the group's time-out.
"""

from __future__ import annotations

from breakrank.host.blocked.threads import EPOLL, State, Thread, in_futex


def state(thread: Thread, call: str) -> State | None:
    """Return what a thread of gloo's does, or the main thread in a send or recv."""
    if thread.name.startswith("gloo_tcp_loop"):
        return State.POLLS if thread.state == "S" and thread.call in EPOLL else State.MOVES
    if thread.name.startswith("pt_gloo_runloop") or (thread.main and call == "message"):
        return State.WAITS if in_futex(thread) else State.MOVES
    return None
