"""Plans of the small programs, in one line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank_agent.plan import Plan, Schedule
from breakrank_agent.protocol.evidence import evidence_for
from breakrank_agent.protocol.fault import Strike

PROGRAMS = Path(__file__).parents[1] / "programs"


def plan_of(program: str, *strikes: Strike, controlled: str = "", **values: Any) -> Plan:
    """Return a plan of two ranks and four steps; each strike's ranks are resolved."""
    ranks = values.get("ranks", 2)
    defaults: dict[str, Any] = {
        "scenario": "test",
        "case": program.replace(":", "-") or "script",
        "program": program,
        "steps": 4,
        "deadline_s": 10.0,
        "control": "same" if strikes else "",
        "oracles": DEFAULT_ORACLES,
        "strikes": tuple(Strike(s.fault, s.trigger, s.trigger.select(ranks, 0)) for s in strikes),
        "schedule": Schedule("controlled", controlled) if controlled else Schedule(),
    }
    asked = {**defaults, **values}
    return Plan(**{"evidence": evidence_for(asked["oracles"]), **asked})
