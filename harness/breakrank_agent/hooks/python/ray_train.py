"""The end of a rank, and its main sequence, where a thread of a process trains that lives on: Ray Train's workers.

The main thread of such a worker has joined the group. It then answers the controller, until that ends the worker, with
an exit code of its own. The thread that trains takes the main sequence over, and its return is the end of the rank.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.tracebacks import hide

WAITS_FOR = "ray.train.v2._internal.execution.worker_group.thread_runner"


def install(agent: Agent) -> None:
    """Wrap what Ray Train starts its thread with, by hand: what the thread runs is to be another function."""
    runner: Any = getattr(sys.modules[WAITS_FOR], "ThreadRunner", None)
    original = getattr(runner, "run", None)
    if original is None:
        agent.record("note", text="a release of Ray Train whose threads that train are not known", limits=True)
        return

    @functools.wraps(original)
    def run(self: Any, target: Callable[[], Any]) -> None:
        if agent.over or not agent.here:
            original(self, target)
            return
        agent.leave_main()
        original(self, _training(agent, target))

    runner.run = run


def _training(agent: Agent, target: Callable[[], Any]) -> Callable[[], Any]:
    """Return the function of the thread that trains, which is the rank from its beginning to its end."""

    @functools.wraps(target)
    def train() -> Any:
        agent.take_main()
        try:
            result = target()
        except SystemExit as leaving:
            hide(leaving)
            code = leaving.code
            agent.finish("exit", code if isinstance(code, int) else int(code is not None), stays=True)
            raise
        except BaseException as error:
            hide(error)
            agent.finish("raised", 1, error, stays=True)
            raise
        agent.finish("returned", None, stays=True)
        return result

    return train
