"""Jobs of Ray's: how workers of a cluster get the agent's environment, and where results of Ray Train are kept.

Ray calls `add_environment` in the driver, by the name in its variable RAY_RUNTIME_ENV_HOOK, with what the script says
of the environment of its workers.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any, Optional

from breakrank_agent.hooks import after_import
from breakrank_agent.protocol.entry import GUEST, HOME, RAY_HOOK, RAY_RESULTS, SECRET

#: The folder of the agent's copy, with its `sitecustomize`.
_COPY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def add_environment(runtime_env: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the script asks for, and what lets the agent in beside it."""
    users = os.environ.get(RAY_HOOK, "")
    if users:
        module, _, function = users.rpartition(".")
        runtime_env = getattr(importlib.import_module(module), function)(runtime_env)
    asked = dict(runtime_env or {})
    variables = dict(asked.get("env_vars") or {})
    ours = {name: os.environ[name] for name in (HOME, SECRET, GUEST) if name in os.environ}
    if ours:
        # Ray puts the variable's value on the node in the place of the last word.
        path = variables.get("PYTHONPATH", "${PYTHONPATH}")
        asked["env_vars"] = {**variables, **ours, "PYTHONPATH": os.pathsep.join([_COPY, path])}
    return asked


def keep_results() -> None:
    """Have Ray Train keep results in the folder of the run, unless the script names another one."""
    folder = os.environ.get(RAY_RESULTS)
    if folder:
        after_import("ray.train.constants", lambda: _set_default(folder))


def _set_default(folder: str) -> None:
    sys.modules["ray.train.constants"].DEFAULT_STORAGE_PATH = folder  # type: ignore[attr-defined]
