"""The rank's side of Breakrank: logical time, strikes and records, with the standard library alone.

Training code may call three functions of this package; each does nothing when no agent was started:
`step()` ends a training step that has no optimizer, `tell()` records named values, `state()` names the values by
which the final result is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from breakrank_agent.agent.agent import state, step, tell

__all__ = ["state", "step", "tell"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Fetch a function when it is asked for.

    This module is imported with every Python below a rank, and most of them, such as a script's tools, need no more.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from breakrank_agent.agent import agent

    return getattr(agent, name)
