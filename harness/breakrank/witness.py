"""Who sees that a strike landed: never the injector, always the kernel, a peer, or bytes that are read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from breakrank.history import signal_name
from breakrank_agent.fault import Fault, Target


@dataclass
class Evidence:
    """What was seen of one struck rank since the strike fired.

    `reports` is what waitpid told the warden of it, `seen` the agent's second reading of the parameters, and `silent`
    says that the rank has recorded nothing since. `before` and `after` are what the witness itself looked at, before
    the strike and now; only a witness of faults from outside can look.
    """

    reports: list[dict[str, Any]] = field(default_factory=list)
    seen: dict[str, Any] | None = None
    silent: bool = True
    before: Any = None
    after: Any = None


def ended(fault: Fault, evidence: Evidence) -> str | None:
    """waitpid reports the exit status that the fault delivers, and the rank recorded nothing after the strike."""
    for report in evidence.reports:
        if report["what"] == "ended" and report["status"] == fault.own_act() and evidence.silent:
            status = report["status"]
            return f"waitpid: {signal_name(-status) if status < 0 else f'exit code {status}'}"
    return None


def stopped(fault: Fault, evidence: Evidence) -> str | None:
    """waitpid reports that the rank was stopped."""
    return "waitpid: stopped" if any(r["what"] == "stopped" for r in evidence.reports) else None


def continued(fault: Fault, evidence: Evidence) -> str | None:
    """waitpid reports that the rank was stopped, and then continued."""
    order = [r["what"] for r in evidence.reports]
    if "stopped" in order and "continued" in order[order.index("stopped") :]:
        return "waitpid: stopped, then continued"
    return None


def parameters(fault: Fault, evidence: Evidence) -> str | None:
    """The digest of the parameters, read again by the recorder, is another one than before the strike."""
    seen = evidence.seen
    if seen and seen["before"] and seen["before"] != seen["after"]:
        return f"parameters read again: {seen['before']} became {seen['after']}"
    return None


@dataclass(frozen=True)
class Witness:
    """`judge` says what was seen, or None; `look` reads something outside of the injector, before and after."""

    judge: Callable[[Fault, Evidence], str | None]
    look: Callable[[Fault, Target], Any] | None = None


WITNESSES: Mapping[str, Witness] = {
    "ended": Witness(ended),
    "stopped": Witness(stopped),
    "continued": Witness(continued),
    "parameters": Witness(parameters),
}
