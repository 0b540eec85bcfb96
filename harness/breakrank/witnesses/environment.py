"""Witnesses of the environment: the kernel's own view of it, beside the rank's."""

from __future__ import annotations

from breakrank.witnesses import Evidence, Witness
from breakrank_agent.protocol.fault import Fault


class Clock(Witness[None]):
    """The rank's wall clock, compared with the one by which the kernel dates files, is off by the fault's seconds."""

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Compare the two readings of both clocks."""
        seen, seconds = evidence.seen, getattr(fault, "seconds", 0)
        before, after = seen["ahead_s"] if seen else (0.0, 0.0)
        # The kernel dates files by its last tick.
        if not seconds or abs(after - before - seconds) > 1:
            return None
        return f"a file's date: the rank's clock is {after:+.0f} s off the kernel's, and was {before:+.0f} s"
