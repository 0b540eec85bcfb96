"""The bytes of the C heap after each step: only where the oracle `native_leak` is asked for, and no census is taken.

A census keeps notes of its own, and they lie on the heap. Without one, the heap of a sound step is the same after it as
before, to a few bytes. Only glibc's heap can be measured: elsewhere nothing is recorded. See `mallinfo2(3)`.

Torch's flight recorder, which keeps its last 2,000 collectives, is off meanwhile: until it is full it grows by some
1.4 kB a collective (measured), as a leak does.
"""

from __future__ import annotations

import ctypes
import gc
import os

from breakrank_agent.agent.agent import Agent

WAITS_FOR = ""


#: The number of entries that the flight recorder keeps, in this torch and in older ones.
_RECORDER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


class _MallInfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def install(agent: Agent) -> None:
    """Measure after each step, if somebody asks for it and it can be done."""
    measure = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if measure is None or "heap" not in agent.plan.evidence:
        return
    measure.restype = _MallInfo
    os.environ.update(dict.fromkeys(_RECORDER, "0"))

    frozen = False

    def take() -> None:
        nonlocal frozen
        # Garbage in cycles is still on the heap. The collector examines objects that outlive the first step only once.
        gc.collect()
        if not frozen:
            gc.freeze()
            frozen = True
        now = measure()
        agent.record("heap", bytes=now.uordblks + now.hblkhd)

    agent.on.step_end.append(take)
