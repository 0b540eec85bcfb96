"""Values that a worker has for itself: variables that nothing trains, and that no strategy reduces when they change.

Running statistics and averages of weights are such variables. A scalar is more often a count or a sum for the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Callable

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.tensorflow.training import Training
from breakrank_agent.hooks.tensorflow.variables import components, is_served, name_of, numbers_of

#: The most elements of a variable that is looked at, and the most variables.
_LARGEST, _MOST = 1 << 16, 64


class OwnValues:
    """The variables that are assigned to with nothing to reduce, beside those that are trained."""

    def __init__(self, agent: Agent, training: Training, assigned: Callable[[], Iterable[Any]]) -> None:
        self._agent, self._training, self._assigned = agent, training, assigned

    def tell(self) -> None:
        """Record their digest at the end of a step that is looked at."""
        if not self._agent.digests_now():
            return
        trained = set(map(id, self._training.parameters()))
        own = [one for one in self._assigned() if id(one) not in trained and _is_state(one)][:_MOST]
        if own:
            digest = hashlib.blake2b(digest_size=8)
            with self._agent.quietly():
                for variable in own:
                    for component in components(variable):
                        digest.update(numbers_of(component).tobytes())
            self._agent.record("buffers", train=True, first=name_of(own[0]), buffers=digest.hexdigest())


def _is_state(variable: Any) -> bool:
    """Return whether a variable is a mirrored one of several floating numbers; one that is summed on reading is not."""
    kept = getattr(getattr(variable, "synchronization", None), "name", "") != "ON_READ"
    shape = variable.shape
    few = shape.rank and shape.num_elements() is not None and shape.num_elements() <= _LARGEST
    return bool(kept and few and variable.dtype.is_floating and not is_served(variable))
