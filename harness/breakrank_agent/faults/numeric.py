"""Faults of numbers: values change without a word."""

from __future__ import annotations

from dataclasses import dataclass

from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.payload import Payload


@dataclass(frozen=True)
class FlipBit(
    Fault,
    witness="parameters",
    certifies="silent corruption of a weight; says nothing about ECC or where in memory it happens",
):
    """One bit of one parameter flips, as in a faulty memory module.

    `parameter` counts the parameters in the order of the optimizer, `bit` counts from the lowest bit of the first byte.
    """

    parameter: int = 0
    bit: int = 22

    def strike_inside(self, payload: Payload) -> None:
        """Flip the bit in the parameter's own memory."""
        buffers = payload.buffers()
        _, raw = buffers[self.parameter % len(buffers)]
        byte, bit = divmod(self.bit, 8)
        raw[byte % len(raw)] ^= 1 << bit


@dataclass(frozen=True)
class ZeroGradients(
    Fault,
    points=("optimize",),
    witness="gradients",
    certifies="an update that one rank does not make; says nothing about what the reduction did",
):
    """The gradients are zero in one step, as where a step is skipped on one rank because its gradients overflowed."""

    def strike_inside(self, payload: Payload) -> None:
        """Overwrite the gradients in their own memory."""
        for _, raw in payload.gradients():
            raw[:] = bytes(len(raw))
