"""Witnesses of collectives: the call that torch was given, and torch's own count of calls."""

from __future__ import annotations

from breakrank.witnesses import Evidence, Witness
from breakrank_agent.protocol.fault import Fault


class Issued(Witness[None]):
    """The call that torch was given, read again, is not the rank's own; of a call left out, torch has counted none."""

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Compare the two calls, or the two counts."""
        seen = evidence.seen
        if not seen or seen["before"] == seen["after"]:
            return None
        if seen["after"]:
            return f"the call read again: {seen['before']} became {seen['after']}"
        before, after = seen["counted"]
        if before is None or before != after:
            return None
        return f"torch has counted {after} collectives in the group, as before: {seen['before']} was not issued"
