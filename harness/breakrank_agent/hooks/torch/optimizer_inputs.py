"""The inputs of an optimizer: its settings, the parameters before its first step, and the gradients that it takes.

They tell why replicas part: the parameters differed from the start, the gradients did, or a learning rate. Settings are
recorded when they change. Parameters and gradients are digested at an optimizer's first step; gradients again at the
steps that are looked at, where these are few.
"""

from __future__ import annotations

import hashlib
from operator import is_
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.parameter_digest import in_parts
from breakrank_agent.agent.sketch import Sketch
from breakrank_agent.hooks.torch.collective_contents import MOST
from breakrank_agent.hooks.torch.tensor_memory import feed, held_of, numbers_of
from breakrank_agent.hooks.torch.training import Training, parameters_of

WAITS_FOR = "torch"

#: The most groups of parameters whose settings are watched: some programs have one for each parameter.
_MOST_GROUPS = 16
#: The values that a setting may have to be recorded; a learning rate may be a tensor of one element, too.
_PLAIN = (bool, int, float, tuple)
#: The types of values that cannot be changed in place.
_FIXED = frozenset((bool, int, float, str, type(None)))
#: The bytes of a digest. Of larger gradients it is that of SHA-1, which many processors have: contents of collectives
#: are digested in full up to `MOST` elements alone, and so are never compared with these.
_DIGEST = 8
#: The elements of a gradient that are looked at first.
_FIRST = 64
#: The units in the last place of the largest element of all gradients within which another element may be nothing but
#: rounding: sums that cancel, such as that of the bias of keys in an attention, leave a part of one such unit.
_FAINT_ULPS = 4


def install(agent: Agent) -> None:
    """See each step of an optimizer before it is made."""
    if agent.plan.digests == "none":
        return
    inputs = _Inputs(agent)
    agent.on.optimize.append(inputs.take)
    agent.on.step_end.append(inputs.tell)


class _Inputs:
    """The inputs of the optimizers since the last step that was told."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._few = agent.plan.digests == "sparse"
        #: The settings of each group that were told last, by the optimizer's number.
        self._settings: dict[int, list[dict[str, Any]]] = {}
        #: The names and values of each group's settings at the last step, where none of them can be changed in place.
        self._plain: dict[tuple[int, int], tuple[list[str], list[Any]]] = {}
        #: The digests of parameters before their optimizer's first step, and of gradients, by identity.
        self._before: dict[int, bytes] = {}
        self._gradients: dict[int, bytes] = {}

    def take(self, number: int, optimizer: Any) -> None:
        """Look at what an optimizer is about to step with."""
        if not number:
            return
        first = number not in self._settings
        self._tell_settings(number, optimizer)
        if not first and not (self._few and self._agent.digests_now()):
            return
        for parameter in parameters_of(optimizer):
            if first:
                self._before[id(parameter)] = self._digest(parameter)
            self._gradients[id(parameter)] = self._digest(parameter.grad, True) if self._has(parameter.grad) else b""

    def _tell_settings(self, number: int, optimizer: Any) -> None:
        """Record the settings that have changed since this optimizer's last step."""
        if number not in self._settings:
            self._settings[number] = [{} for _ in optimizer.param_groups[:_MOST_GROUPS]]
        known = self._settings[number]
        for group, (told, now) in enumerate(zip(known, optimizer.param_groups)):
            if self._is_as_before((number, group), now):
                continue
            # The same objects as at the last step are, with few exceptions, all there is to see.
            new = {name: value for name, value in now.items() if value is not told.get(name) or _is_tensor(value)}
            changed = {name: text for name, value in new.items() if (text := _text(value)) != _text(told.get(name))}
            told.update({name: _kept(value) for name, value in new.items() if name != "params"})
            if changed:
                self._agent.record("settings", optimizer=number, param_group=group, values=changed)

    def _is_as_before(self, which: tuple[int, int], now: dict[str, Any]) -> bool:
        """Return whether a group has the settings of the last step, and none of them can change in place."""
        names, values = [*now], [*now.values()]
        # The parameters are no setting, and not ours to keep.
        values[names.index("params")] = None
        before = self._plain.get(which)
        if before is not None and before[0] == names and all(map(is_, before[1], values)):
            return True
        if all(map(_is_fixed, values)):
            self._plain[which] = names, values
        else:
            self._plain.pop(which, None)
        return False

    def _has(self, gradient: Optional[Any]) -> bool:
        """Return whether a gradient says something: one of zeros is that of a part that had nothing to do."""
        import torch

        if gradient is None:
            return False
        with self._agent.quietly(), torch.no_grad():
            return any(_any(held) for held in held_of(gradient))

    def _digest(self, tensor: Any, gradient: bool = False) -> bytes:
        """Return a digest; that of a small gradient is the one that contents of collectives have."""
        import torch

        fast = gradient and tensor.numel() > MOST
        digest = hashlib.sha1(usedforsecurity=False) if fast else hashlib.blake2b(digest_size=_DIGEST)
        with self._agent.quietly(), torch.no_grad():
            feed(digest, tensor)
        return digest.digest()[:_DIGEST]

    def _sketch(self, parts: list[list[Any]]) -> dict[str, Any]:
        """Return how many elements may be rounding, and what gradients are compared with those of one rank by."""
        import torch

        with self._agent.quietly(), torch.no_grad():
            held = [[one for p in part if p.grad is not None for one in held_of(p.grad)] for part in parts]
            if "norms" not in self._agent.plan.evidence:
                return _count(held)
            sketch = Sketch(lambda signs: torch.frombuffer(bytearray(signs), dtype=torch.int8).double())
            for gradients in held:
                sketch.add(map(numbers_of, gradients))
            return {"sums": sketch.sums, **_count(held)} if sketch.facts() else {}

    def _totals(self, parts: list[list[Any]]) -> dict[str, Any]:
        """Return the sums by which a gradient is known in a collective; empty where nothing asks for them."""
        import torch

        if "contents" not in self._agent.plan.evidence:
            return {}
        with self._agent.quietly(), torch.no_grad():
            held = [[one for p in part if p.grad is not None for one in held_of(p.grad)] for part in parts]
            return {"totals": [_total(part) for part in held]}

    def tell(self) -> None:
        """Record the digests of the parts of the parameters that were taken, in the order of their names."""
        training = self._agent.model.handles
        if not self._gradients or not isinstance(training, Training):
            return
        parts = in_parts(training.parameters())
        facts: dict[str, Any] = {"gradients": [_joined(part, self._gradients) for part in parts]}
        if self._before:
            facts["before"] = [_joined(part, self._before) for part in parts]
            facts.update(self._sketch(parts))
            facts.update(self._totals(parts))
        self._before, self._gradients = {}, {}
        self._agent.record("inputs", **facts)


def _any(held: Any) -> bool:
    """Return whether some element is not 0: mostly one of the first is, and the others need no look."""
    import torch

    if held.layout is torch.strided and held.dim() and held.numel() and held[(0,) * (held.dim() - 1)][:_FIRST].any():
        return True
    return bool(held.any())


def _count(held: list[list[Any]]) -> dict[str, Any]:
    """Return how many elements of each part's gradient are 0, and how many faint: not 0, but maybe rounding."""
    import torch

    floating = [[one for one in part if one.is_floating_point() and one.numel()] for part in held]
    every = [one for part in floating for one in part]
    largest = max((float(one.abs().max()) for one in every), default=0.0)
    least = _FAINT_ULPS * max((torch.finfo(one.dtype).eps for one in every), default=0.0) * largest
    still = [sum(int((one == 0).sum()) for one in part) for part in floating]
    small = [sum(int((one.abs() <= least).sum()) for one in part) for part in floating]
    return {"still": still, "faint": [count - zeros for count, zeros in zip(small, still)]}


def _total(held: list[Any]) -> list[float]:
    """Return the sum of numbers, and of their magnitudes; 0 where one is not finite."""
    numbers = [numbers_of(one) for one in held if one.is_floating_point()]
    found = [sum(float(one.sum()) for one in numbers), sum(float(one.abs().sum()) for one in numbers)]
    return found if found[1] - found[1] == 0 else [0.0, 0.0]


def _joined(part: list[Any], digests: dict[int, bytes]) -> str:
    """Return one digest of a part, empty if none of its parameters was digested."""
    found = [digests.get(id(parameter), b"") for parameter in part]
    return hashlib.blake2b(b"/".join(found), digest_size=4).hexdigest() if any(found) else ""


def _is_fixed(value: Any) -> bool:
    """Return whether a setting stays as it is, and is cheap to keep."""
    return type(value) in _FIXED or (type(value) is tuple and _FIXED.issuperset(map(type, value)))


def _is_tensor(value: Any) -> bool:
    """Return whether a setting is a tensor, which may be changed in place."""
    return type(value) not in _PLAIN and getattr(value, "ndim", None) == 0


def _kept(value: Any) -> Any:
    return value.item() if _is_tensor(value) else value


def _text(value: Any) -> str:
    """Return a setting as text; empty if it is not a number, a truth value or several of them."""
    if isinstance(value, _PLAIN):
        return str(value)
    return str(value.item()) if _is_tensor(value) else ""
