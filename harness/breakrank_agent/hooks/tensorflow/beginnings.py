"""The values that variables have before the first step changes them."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Callable

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.parameter_digest import MOST_PARTS
from breakrank_agent.hooks.tensorflow.variables import components, numbers_of


class Beginnings:
    """Digests of the variables that are known when the first gradient is taken, or the first optimizer steps."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._looked = agent.plan.digests == "none"
        #: By the identity of a variable: the variable, and its digest.
        self._known: dict[int, tuple[Any, str]] = {}

    def look(self, parameters: Callable[[], list[Any]]) -> None:
        """Digest the parameters, unless that is done; of a model of very many parts none."""
        if self._looked or not (found := parameters()):
            return
        self._looked = True
        if len(found) <= MOST_PARTS:
            self._agent.guard(self._digest, found)

    def _digest(self, found: list[Any]) -> None:
        # One that lies on several devices cannot be read, which the digest of the parameters says.
        with self._agent.quietly(), contextlib.suppress(TypeError):
            self._known = {id(one): (one, _digest_of(one)) for one in found}

    def of(self, parameters: list[Any]) -> list[str]:
        """Return what parameters began with, and let go of it; none if some of them were not looked at."""
        known, self._known = self._known, {}
        return [known[id(one)][1] for one in parameters] if all(id(one) in known for one in parameters) else []


def _digest_of(variable: Any) -> str:
    """Return the digest of a variable; of one with several replicas here, of the first."""
    return hashlib.blake2b(numbers_of(components(variable)[0]).tobytes(), digest_size=8).hexdigest()
