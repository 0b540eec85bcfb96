"""Faults of numbers: values change without a word."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Optional, TypeVar

from breakrank_agent.protocol.bits import Corruption
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.payload import Payload
from breakrank_agent.protocol.trigger import PlanError

if TYPE_CHECKING:
    from random import Random

#: Numbers that a plan draws are below it; the fault takes them modulo the number of what there is.
_DRAWN = 1 << 31


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


@dataclass(frozen=True)
class _Corrupted(Fault, abstract=True):
    """Words in memory are wrong in one of several ways, see `breakrank_agent.protocol.bits`.

    `model` is `bit` (one flips), `bits` (three neighbouring ones of one word), `stuck` (one cannot change any more),
    `element` (a field of one word becomes random) or `row` (one bit of each word of the last dimension). `field` is the
    part of the floating-point word: `sign`, `exponent`, `mantissa` or `any`. The tensor, the element and the bit of the
    field, each counted modulo the number of those that are there, are drawn from the seed if they are None.
    """

    model: str = "bit"
    field: str = "exponent"
    tensor: Optional[int] = None
    element: Optional[int] = None
    bit: Optional[int] = None

    def __post_init__(self) -> None:
        Corruption(self.model, self.field)

    def drawn(self: _AnyCorrupted, draw: Random) -> _AnyCorrupted:
        """Return the fault with a tensor, an element and a bit."""
        # A place that is given moves none of the others.
        places = [(place, draw.randrange(_DRAWN)) for place in (self.tensor, self.element, self.bit)]
        tensor, element, bit = (drawn if place is None else place for place, drawn in places)
        return replace(self, tensor=tensor, element=element, bit=bit)

    def lasts(self) -> bool:
        """Return whether the bit cannot change any more."""
        return self.model == "stuck"

    @functools.cached_property
    def corruption(self) -> Corruption:
        """The words and bits that go wrong."""
        return Corruption(self.model, self.field, self.tensor or 0, self.element or 0, self.bit or 0)


_AnyCorrupted = TypeVar("_AnyCorrupted", bound=_Corrupted)


@dataclass(frozen=True)
class CorruptWeights(
    _Corrupted,
    witness="parameters",
    certifies="silent corruption of weights in memory; says nothing about ECC or about its cause",
):
    """Words of one parameter are wrong, as where a memory module fails."""

    def strike_inside(self, payload: Payload) -> None:
        """Change them in the parameter's own memory."""
        self.corruption.strike(payload.words("parameters"))


@dataclass(frozen=True)
class CorruptGradients(
    _Corrupted,
    points=("optimize",),
    witness="gradients",
    certifies="silent corruption of gradients after their reduction; says nothing about how they were computed",
):
    """Words of one gradient are wrong when the optimizer takes it."""

    def strike_inside(self, payload: Payload) -> None:
        """Change them in the gradient's own memory."""
        self.corruption.strike(payload.words("gradients"))


@dataclass(frozen=True)
class CorruptOptimizerState(
    _Corrupted,
    points=("step",),
    witness="optimizer_state",
    certifies="silent corruption of momenta and other state of an optimizer; says nothing about the weights",
):
    """Words of an optimizer's state, such as a momentum, are wrong after a step."""

    def strike_inside(self, payload: Payload) -> None:
        """Change them in the state's own memory."""
        self.corruption.strike(payload.words("optimizer state"))


@dataclass(frozen=True)
class CorruptActivations(
    _Corrupted,
    on="computation",
    points=("forward",),
    witness="output",
    certifies="silent corruption of one layer's output; says nothing about the layer's weights",
):
    """Words in the output of one layer are wrong: the layers after it, and the backward pass, take them as they are."""

    def strike_inside(self, payload: Payload) -> None:
        """Change them as soon as the layer has returned; the tensor's number is that of the layer."""
        payload.computation().change_output(self.tensor or 0, self.corruption.strike)


@dataclass(frozen=True)
class CorruptMessage(
    _Corrupted,
    on="collective",
    points=("collective",),
    witness="issued",
    certifies="silent corruption of a buffer on its way; says nothing about links whose frames have checksums",
):
    """Words in the buffer of one collective are wrong: on the way out, or `received` by this rank alone.

    Raises `PlanError` for a stuck bit: a message passes once.
    """

    received: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model == "stuck":
            raise PlanError("a bit of a message cannot be stuck: the message passes once")

    def strike_inside(self, payload: Payload) -> None:
        """Have them changed in a copy that is sent, or in what was received."""
        call = payload.collective()
        (call.receive_changed if self.received else call.send_changed)(self.corruption.strike)


@dataclass(frozen=True)
class MultiplyWrongly(
    _Corrupted,
    on="computation",
    points=("forward",),
    witness="output",
    certifies="a core or accelerator that fails silently; says nothing about products outside of torch's operators",
):
    """One element of each product of matrices is wrong from now on, after a restart, too, as on a core that fails."""

    def lasts(self) -> bool:
        """Return that the core does not recover."""
        return True

    def strike_inside(self, payload: Payload) -> None:
        """Change each product as soon as it is computed."""
        payload.computation().change_products(self.corruption.strike)
