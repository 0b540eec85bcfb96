"""Computations that a strike gets wrong: the output of one layer, or each product of matrices from then on.

It is installed on a rank that is to be struck so, and on no other. A layer is watched for one forward pass. A
`TorchDispatchMode`, which the strike enters, sees products.
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.model import NoHandles
from breakrank_agent.hooks.torch.dispatch_modes import enter_mode, uncompiled
from breakrank_agent.hooks.torch.tensor_memory import unseen, words_of
from breakrank_agent.protocol.payload import Change

WAITS_FOR = "torch"
AFTER = ("torch.training",)

#: The operators that multiply matrices.
PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm", "mv", "addmv"))

#: Takes a tensor that was just computed.
Take = Callable[[Any], None]


def install(agent: Agent) -> None:
    """Watch forward passes, if one of them is to be struck."""
    if agent.injector.strikes_on("computation"):
        agent.on.forward.append(_Passes(agent).begin)


class _Passes:
    """The forward passes of this rank, and the strikes that are on record."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._seen: set[int] = set()
        self._multiplies_wrongly = False

    def begin(self, module: Any) -> None:
        """Have the strikes that are due change the pass of a module."""
        for number, strike in self._agent.injector.take_strikes("computation"):
            struck = _Pass()
            strike.fault.strike_inside(struck)
            if struck.change_of_output is not None:
                self._watch_layer(module, struck.layer, self._taking(number, struck.change_of_output))
            if struck.change_of_products is not None and not self._multiplies_wrongly:
                self._multiplies_wrongly = True
                mode = _mode_of(self._taking(number, struck.change_of_products))
                enter_mode(self._agent, mode, "wrong products")

    def _watch_layer(self, module: Any, layer: int, take: Take) -> None:
        """Take the output of one layer without layers inside, in its next pass alone."""
        layers = [one for one in module.modules() if not any(True for _ in one.children())]

        def hook(_: Any, __: Any, output: Any) -> None:
            handle.remove()
            take(output)

        handle = layers[layer % len(layers)].register_forward_hook(hook)

    def _taking(self, number: int, change: Change) -> Take:
        """Return what changes a tensor, and has it read before and after the first time."""

        def take(output: Any) -> None:
            with self._agent.quietly(), unseen():
                before = _digest(output)
                change(words_of("outputs", [output]))
                after = _digest(output)
            if number not in self._seen and before != after:
                self._seen.add(number)
                self._agent.record("strike", strike=number, phase="seen", before=before, after=after)

        return take


class _Pass(NoHandles):
    """One forward pass, as a fault gets it."""

    def __init__(self) -> None:
        self.layer = 0
        self.change_of_output: Optional[Change] = None
        self.change_of_products: Optional[Change] = None

    def computation(self) -> _Pass:
        """Return what can be done to the pass."""
        return self

    def change_output(self, layer: int, change: Change) -> None:
        """Change the output of one layer."""
        self.layer, self.change_of_output = layer, change

    def change_products(self, change: Change) -> None:
        """Change each product from now on."""
        self.change_of_products = change


def _mode_of(take: Take) -> Any:
    """Return a mode that hands over each product."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[Any] = None) -> Any:
            return run(func, args, kwargs or {})

    @uncompiled
    def run(func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if func._schema.name.split("::")[1] in PRODUCTS and result.numel():
            take(result)
        return result

    return Products()


def _digest(tensor: Any) -> str:
    (words,) = words_of("outputs", [tensor])
    return hashlib.blake2b(words.raw, digest_size=8).hexdigest()
