"""How the agent enters a script that is started as ever: by a `sitecustomize` at the head of the path.

Python imports it before the script. The variable BREAKRANK_ENTER holds the boot specification of this rank; it is taken
out of the environment, so that what the script starts is left alone. Where a launcher starts the ranks, BREAKRANK_HOME
is set instead, see `breakrank_agent.calling`; a child that a rank spawns, and that is watched, finds BREAKRANK_CHILD.
An existing `sitecustomize` runs all the same.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from breakrank_agent.probe import Agent

#: Holds the specification of a child that is spawned, while its rank starts it.
SPAWNED = "BREAKRANK_CHILD"
#: The module beside the agent's copy that Python finds; see `breakrank.runners.process.stage_agent`.
SITECUSTOMIZE = "import breakrank_agent.enter\n\nbreakrank_agent.enter.enter(__file__)\n"


def enter(where: str) -> None:
    """Start the agent if this process is a rank, then run the `sitecustomize` that this one hides."""
    text = os.environ.pop("BREAKRANK_ENTER", None)
    if text is not None:
        begin(json.loads(text))
    elif SPAWNED in os.environ:
        _begin_child()
    elif "BREAKRANK_HOME" in os.environ:
        from breakrank_agent import calling

        calling.listen()
    _run_hidden(os.path.dirname(where))


def begin(spec: dict[str, Any]) -> Agent:
    """Start the agent, and see the end of the main module."""
    from breakrank_agent import boot

    agent = boot.start_agent(spec)

    def over() -> None:
        """The main module is over: before atexit, and before anything is taken apart."""
        error = getattr(sys, "last_value", None)
        # Whether it left by sys.exit, and how, is seen by whoever waits for the process.
        agent.finish("returned" if error is None else "raised", None if error is None else 1, error)

    # threading runs these first of all at the end of the main module; atexit would come after the user's own.
    threading._register_atexit(over)  # type: ignore[attr-defined]
    return agent


def _begin_child() -> None:
    """Start the agent of a child, if this is the one and not what `multiprocessing` starts beside it."""
    from breakrank_agent.identity import own_command

    spec = json.loads(os.environ.pop(SPAWNED))
    put_back(spec["path"])
    if "--multiprocessing-fork" in own_command():
        from breakrank_agent import boot

        boot.start_child(spec)


def put_back(path: Optional[str]) -> None:
    """Let PYTHONPATH be what it was."""
    if path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = path


def _run_hidden(ours: str) -> None:
    """Run the next `sitecustomize` on the path, as if ours had not been there."""
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry) != os.path.abspath(ours)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
