"""Plans with more evidence than their scenarios ask for."""

from __future__ import annotations

from dataclasses import replace

from breakrank_agent.plan import Plan
from breakrank_agent.protocol.evidence import EVIDENCE, evidence_for


def with_all_evidence(plan: Plan) -> Plan:
    """Return the plan with all evidence that goes together, and with each step digested."""
    readers = [reader for readers in EVIDENCE.values() for reader in readers]
    return replace(plan, evidence=evidence_for(readers), digests="every")
