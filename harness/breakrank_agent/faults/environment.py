"""Faults of the environment: the surroundings of a rank are not as it takes them to be."""

from __future__ import annotations

from dataclasses import dataclass

from breakrank_agent.kernel.vdso import shift_wall_clock
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.payload import Payload


@dataclass(frozen=True)
class JumpClock(
    Fault,
    needs=("clock",),
    witness="clock",
    certifies=(
        "a wall clock that is read wrong; the kernel's own stays: by that it dates files, and ends waits until a time"
    ),
):
    """The rank's wall clock jumps by `seconds`, back if they are negative, as where a host is set right by NTP.

    The C library returns another time of day, to Python and C++, and in children that the rank forks; monotonic clocks
    go on as ever.
    """

    seconds: int = 3600

    def strike_inside(self, payload: Payload) -> None:
        """Shift it."""
        shift_wall_clock(self.seconds)
