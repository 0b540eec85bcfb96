"""The rank's side of Breakrank: logical time, strikes and records, with the standard library alone.

Training code may call three functions of this package; each does nothing when no agent was started:
`step()` ends a training step that has no optimizer, `tell()` records named values, `state()` names what the
final result is compared by.
"""

from __future__ import annotations

from breakrank_agent.probe import state, step, tell

__all__ = ["state", "step", "tell"]
__version__ = "0.1.0"
