"""Witnesses of numbers: the recorder reads them again after the strike, by code that knows nothing of the fault."""

from __future__ import annotations

from typing import ClassVar

from breakrank.witnesses import Evidence, Witness
from breakrank_agent.protocol.fault import Fault


class Parameters(Witness[None]):
    """The digest of the parameters, read again by the recorder, is another one than before the strike."""

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Compare the two digests."""
        seen = evidence.seen
        if seen and seen["before"] and seen["before"] != seen["after"]:
            return f"parameters read again: {seen['before']} became {seen['after']}"
        return None


class _ReadAgain(Witness[None], abstract=True):
    """The digest of some numbers, read again by the recorder, is another one."""

    what: ClassVar[str]

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Compare the two digests."""
        seen = evidence.seen
        if not seen or seen["before"] == seen["after"]:
            return None
        return f"{self.what} read again: {seen['before']} became {seen['after']}"


class Gradients(_ReadAgain):
    """The digest of the gradients, read again by the recorder before the optimizer steps, is another one."""

    what = "gradients"


class OptimizerState(_ReadAgain):
    """The digest of the optimizers' state, read again by the recorder, is another one."""

    what = "optimizer state"


class Output(_ReadAgain):
    """The output of a layer or an operator, read again before anything takes it, has another digest."""

    what = "output"
