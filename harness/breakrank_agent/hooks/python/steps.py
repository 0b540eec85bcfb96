"""End a step with the return of a function, `module:function`, which the person who starts the run has named.

A function of an imported module is wrapped when that has been imported. The script's own is defined while the script
runs, and nobody tells: it is looked for at each point until it is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks import after_import

WAITS_FOR = ""


def install(agent: Agent) -> None:
    """Wrap the function that the plan names, if it names one."""
    if not agent.plan.step:
        return
    module, _, path = agent.plan.step.partition(":")
    seeker = _Seeker(agent, module, path.split("."))
    after_import(module, seeker.look_in_module)
    agent.on.point.append(seeker.look)


class _Seeker:
    """Looks for the function, and wraps it once. A call that is under way by then ends a step, too."""

    def __init__(self, agent: Agent, module: str, path: list[str]) -> None:
        self._agent = agent
        self._module = module
        self._path = path
        self._original: Any = None
        self._under_way: Optional[FrameType] = None

    def look_in_module(self) -> None:
        """Wrap the function of the step in its module, which has been imported."""
        self._wrap_in(sys.modules[self._module])

    def look(self) -> None:
        """Look for the function of the step, as the main thread is about to enter a point."""
        if self._under_way is not None:
            if self._under_way not in _frames():
                self._done()
                self._agent.close_step(self._agent.plan.step)
            return
        main = sys.modules["__main__"]
        file = getattr(main, "__file__", None) or ""
        if self._module in ("__main__", os.path.splitext(os.path.basename(file))[0]) and self._wrap_in(main):
            code = getattr(self._original, "__code__", None)
            self._under_way = next((frame for frame in _frames() if frame.f_code is code), None)
            if self._under_way is None:
                self._done()

    def _done(self) -> None:
        self._under_way = None
        self._agent.on.point.remove(self.look)

    def _wrap_in(self, module: Any) -> bool:
        """Wrap the function where its name is bound; return whether it is there."""
        owner = module
        for name in self._path[:-1]:
            owner = getattr(owner, name, None)
        original = getattr(owner, self._path[-1], None)
        if not callable(original):
            return False
        self._original = original
        interpose(owner, self._path[-1], after=lambda *_: self._agent.close_step(self._agent.plan.step))
        return True


def _frames() -> Iterator[FrameType]:
    """Yield the calls that are under way on this thread, the innermost first."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
