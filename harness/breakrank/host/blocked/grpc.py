"""Recognise threads of gRPC and of TensorFlow that wait because no peer sends anything.

Those of gRPC's event engine sleep in epoll_wait until something arrives, or wait for work with a time-out, as do the
ones that keep the heartbeats of TensorFlow's coordination service. A message that arrives makes one of them run, and it
wakes a thread that waits without a time-out. They wake for their timers, too, which bring nothing to the job.
"""

from __future__ import annotations

from breakrank.host.blocked.threads import EPOLL, FUTEX, POLL, RELATIVE, State, Thread

#: The most events that one call of gRPC's engine takes (MAX_EPOLL_EVENTS). No other loop asks for as many.
_EVENTS = 100
_FOREVER = 0xFFFFFFFF


def state(thread: Thread, call: str) -> State | None:
    """Return that a thread of gRPC has nothing to do, or None for any other."""
    if thread.state != "S" or len(thread.arguments) < 4:
        return None
    if thread.call in EPOLL and thread.arguments[2] == _EVENTS:
        return State.IDLE
    if thread.call == FUTEX and thread.arguments[1] == RELATIVE and thread.arguments[3] != 0:
        return State.IDLE
    # The issuer of collectives from Python keeps a pool, of which one thread looks after the others.
    forever = thread.call in POLL and thread.arguments[1:3] == (1, _FOREVER)
    return State.WAITS if forever and call == "eager" and not thread.main else None
