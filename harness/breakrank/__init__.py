"""Breakrank breaks distributed training on purpose, the same way every time, and judges what came of it."""

from __future__ import annotations

from breakrank.errors import BreakrankError
from breakrank.plan.scenario import Case, Job, Scenario, controlled, free
from breakrank.verdict import (
    CRASHED,
    DETECTED,
    HUNG,
    SILENT,
    SURVIVED,
    VOID,
    crashed,
    detected,
    hung,
    silent,
    survived,
)
from breakrank.witnesses import check_witness
from breakrank_agent import faults
from breakrank_agent.protocol.fault import check_each
from breakrank_agent.protocol.trigger import all_but, at

# The agent, which defines the faults, knows no witness.
check_each(check_witness)

__version__ = "0.1.0"
__all__ = [
    "CRASHED",
    "DETECTED",
    "HUNG",
    "SILENT",
    "SURVIVED",
    "VOID",
    "BreakrankError",
    "Case",
    "Job",
    "Scenario",
    "all_but",
    "at",
    "controlled",
    "crashed",
    "detected",
    "faults",
    "free",
    "hung",
    "silent",
    "survived",
]
