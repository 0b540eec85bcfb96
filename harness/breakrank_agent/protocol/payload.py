"""The objects that a hook hands to a fault from inside the rank, at the point of the strike."""

from __future__ import annotations

from typing import Any, Callable, Protocol

from breakrank_agent.protocol.bits import Words

#: Changes the memory of some tensors.
Change = Callable[[list[Words]], None]


class Payload(Protocol):
    """The tensors and calls of the rank at the point of the strike, as its hook hands them to the fault."""

    def buffers(self) -> list[tuple[str, memoryview]]:
        """Return the rank's parameters as (name, writable bytes)."""

    def gradients(self) -> list[tuple[str, memoryview]]:
        """Return the gradients of the rank's parameters as (name, writable bytes); those that there are."""

    def words(self, of: str) -> list[Words]:
        """Return the memory of the rank's `parameters`, `gradients` or `optimizer state`. Raises `LookupError`."""

    def batch(self) -> list[Part]:
        """Return the tensors of the batch that a data loader is about to hand out; only at the point `load`."""

    def collective(self) -> Call:
        """Return the collective that the rank is about to issue; only at the point `collective`."""

    def wrapper(self) -> Wrapper:
        """Return the wrapper whose forward pass is about to begin; only at the point `forward`."""

    def computation(self) -> Computation:
        """Return the forward pass that is about to begin; only at the point `forward`."""


class Part(Protocol):
    """One tensor of a batch, which is the rank's alone."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""

    def numbers(self) -> memoryview[Any]:
        """Return its numbers, writable, in C order. Raises `LookupError` for a dtype that Python has no numbers for."""

    def cast(self, dtype: str) -> None:
        """Make it one of another dtype, by the framework's own name."""


class Call(Protocol):
    """A collective that one rank is about to issue, and its peers will issue unchanged."""

    def skip(self) -> None:
        """Skip it: its caller goes on as if it were done, with the tensors as they are."""

    def swap(self) -> None:
        """Issue it after the next one of its group."""

    def change(self, what: str, to: Any) -> None:
        """Issue it another way: `dtype` (a name), `shape`, `count` (elements more or less), `reduce` (a name), `root`.

        `to` None is the next value. Raises `LookupError` for a call that has no such thing.
        """

    def send_changed(self, change: Change) -> None:
        """Issue it with a copy of its tensors that was changed on its way out."""

    def receive_changed(self, change: Change) -> None:
        """Change its tensors on this rank alone, as soon as it is complete."""


class Wrapper(Protocol):
    """A wrapper that has a module inside and reduces its gradients, for one forward pass."""

    def leave_unsynced(self) -> None:
        """Have no gradient reduced in the backward pass that follows."""

    def bypass(self) -> None:
        """Call the module inside in its place."""


class Computation(Protocol):
    """A forward pass of one rank, and the products of matrices that it computes from then on."""

    def change_output(self, layer: int, change: Change) -> None:
        """Change the output of one layer without layers inside, modulo their number, in this pass."""

    def change_products(self, change: Change) -> None:
        """Change each product of matrices of the rank from now on."""
