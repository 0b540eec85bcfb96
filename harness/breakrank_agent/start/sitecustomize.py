"""Enter a script that is started as ever: this `sitecustomize` lies at the head of the path.

Python imports it before the script. The variable BREAKRANK_ENTER holds the boot specification of this rank; it is taken
out of the environment, so that processes of the script are left alone. If a launcher starts the ranks, BREAKRANK_HOME
is set instead, and below a rank of ours, too: see `breakrank_agent.start.join`. A watched child that a rank spawns
finds BREAKRANK_CHILD.
An existing `sitecustomize` runs all the same.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys

from breakrank_agent.protocol.entry import HOME, SPAWNED, restore_path


def enter(where: str) -> None:
    """Start the agent if this process is a rank, then run the `sitecustomize` that this one hides."""
    text = os.environ.pop("BREAKRANK_ENTER", None)
    if text is not None:
        from breakrank_agent.start import boot

        spec = json.loads(text)
        boot.begin(spec)
        if HOME in os.environ:
            from breakrank_agent.start import join

            join.listen_below(spec["rank"], spec["world"])
    else:
        if SPAWNED in os.environ:
            _begin_child()
        if HOME in os.environ:
            from breakrank_agent.start import join

            join.listen()
    _run_hidden(os.path.dirname(where))


def _begin_child() -> None:
    """Start the agent of a child, if this is the one and not what `multiprocessing` starts beside it."""
    from breakrank_agent.protocol.identity import own_command

    spec = json.loads(os.environ.pop(SPAWNED))
    restore_path(spec["path"])
    if "--multiprocessing-fork" in own_command():
        from breakrank_agent.start import boot

        boot.start_child(spec)


def _run_hidden(ours: str) -> None:
    """Run the next `sitecustomize` on the path, as if ours had not been there."""
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry) != os.path.abspath(ours)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
