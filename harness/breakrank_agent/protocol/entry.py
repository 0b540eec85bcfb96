"""Names and sizes by which pytest's side and the start of a rank find each other."""

from __future__ import annotations

import os
import signal
from typing import Optional

#: Environment: the address that a rank of any launcher calls, its secret, and set where the job is only watched.
HOME, SECRET, GUEST = "BREAKRANK_HOME", "BREAKRANK_SECRET", "BREAKRANK_GUEST"
#: Environment: set below a rank of ours, to its number and the world size. A process there that calls home is no rank.
BELOW = "BREAKRANK_BELOW"
#: Environment of a driver of Ray's: the hook that the user has named to Ray, and the folder for Ray Train's results.
RAY_HOOK, RAY_RESULTS = "BREAKRANK_RAY_HOOK", "BREAKRANK_RAY_RESULTS"
#: The length of the secret, in bytes.
SECRET_BYTES = 32
#: Environment: the specification of a child that is spawned, while its rank starts it.
SPAWNED = "BREAKRANK_CHILD"
#: The largest message between a zygote and its caller, in bytes.
PACKET = 1 << 20
#: Asks a rank for the Python stacks of all its threads. A real-time signal, which no program of the field uses.
STACKS_SIGNAL = signal.SIGRTMAX - 3
#: The module beside the agent's copy that Python finds; see `breakrank.runners.process.stage_agent`.
SITECUSTOMIZE = "import breakrank_agent.start.sitecustomize\n\nbreakrank_agent.start.sitecustomize.enter(__file__)\n"


def restore_path(path: Optional[str]) -> None:
    """Set PYTHONPATH to `path`; unset it for None."""
    if path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = path
