"""Recognise the threads of a worker of Ray's that serve others: its own loops, and gRPC's.

They wake for messages and timers many times in a second. As long as the rank is in a collective, which only its peers
can end, they bring nothing to it: the main thread answers the controller meanwhile, while another thread trains. A rank
that is in none may wait for them, as it does in `ray.get` or `ray.train.report`: then they say nothing.
"""

from __future__ import annotations

import contextlib
import platform

from breakrank.host.blocked.threads import EPOLL, FUTEX, State, Thread

#: The number of clock_nanosleep(2).
_SLEEP = 230 if platform.machine() == "x86_64" else 115
#: The beginning of the command line that Ray gives to a worker which has an actor.
_WORKER = b"ray::"
#: The most events that one call of Boost.Asio's loop takes. The loops of torch, gloo and gRPC ask for other numbers.
_EVENTS = 128
#: Beginnings of the names of its threads, as far as the kernel keeps them. Threads of Python have the worker's name.
_NAMES = (
    *("client.poll", "server.poll", "worker.io", "worker.user_obj", "gcs_client_io", "task_event_buff"),
    *("default-executo", "resolver-execut", "event_engine", "timer_manager", "grpc_global_tim", "grpcpp_sync_ser"),
    *("nexting_thread", "jemalloc_bg_thd"),
)


def state(thread: Thread, call: str) -> State | None:
    """Return that a thread of Ray's has nothing to do, or None for any other."""
    if call != "collective" or thread.state != "S" or not (thread.main or thread.name.startswith(_NAMES)):
        return None
    if thread.main:
        waits = thread.call in EPOLL and thread.arguments[2] == _EVENTS
    else:
        waits = thread.call in EPOLL or thread.call in (FUTEX, _SLEEP)
    return State.IDLE if waits and _is_worker(thread.tid) else None


def _is_worker(tid: int) -> bool:
    """Return whether a thread is of a worker of Ray's; other processes with gRPC have threads of the same names."""
    with contextlib.suppress(OSError), open(f"/proc/{tid}/cmdline", "rb", buffering=0) as file:
        return file.read(len(_WORKER)) == _WORKER
    return False
