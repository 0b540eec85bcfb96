"""The engine Ray: its workers are ranks, in a cluster that the script starts, or in one that is there.

A cluster of the script's own is below the command: its raylet and its workers inherit the environment, and are ended
with the run. All that Ray would write to the machine's temporary folder and to the user's home lies in a folder of the
run's meanwhile. Workers of a cluster that is there get the environment by Ray's own hook for it
(`breakrank_agent.start.ray_job`), and end with the job, when its driver does: nothing of the user's is ended.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from breakrank.errors import BreakrankError, CutShortError
from breakrank.host.session import Session
from breakrank.runners.engine import End, Engine, Launch
from breakrank_agent.protocol.entry import RAY_HOOK, RAY_RESULTS

#: Ray's variables: for its temporary folder, and for the token by which processes of a cluster know each other.
_TEMP, _TOKEN = "RAY_TMPDIR", "RAY_AUTH_TOKEN"
_TOKENS = ("RAY_AUTH_MODE", _TOKEN, "RAY_AUTH_TOKEN_PATH")
#: Ray's variable for the function by which the environment of a job's workers may be changed.
_HOOK = "RAY_RUNTIME_ENV_HOOK"
#: The most characters of the path of a folder that Ray has room for: the paths of its sockets begin with it, and have
#: 107 at most.
_MOST_PATH = 34
#: The name under which the supervisor keeps the program that removes Ray's folder, and that folder of results.
_LAST, _RESULTS = "ray", "ray_results"


class RayEngine(Engine):
    """Starts a script whose ranks are workers of Ray's; they are not below it if it `joins` a cluster."""

    def __init__(self, joins: bool) -> None:
        self.daemons = "workers of a Ray cluster run elsewhere" if joins else ""
        self._temp: Path | None = None
        self._results = Path()

    def prepare(self, launch: Launch) -> dict[str, str]:
        """Return where Ray keeps its files in this run, or how the workers of a cluster get our environment."""
        if self.remote:
            ours = {RAY_HOOK: launch.env.get(_HOOK, ""), _HOOK: "breakrank_agent.start.ray_job.add_environment"}
            results = {RAY_RESULTS: str(launch.folder / _RESULTS)} if launch.session.ends_jobs else {}
            return {**ours, **results}
        if not launch.session.ends_jobs:
            return {}
        self._temp = _make_folder(launch.env.get(_TEMP, ""))
        self._results = launch.folder / _RESULTS
        launch.session.last(["rm", "-rf", "--", str(self._temp)], _LAST)
        given = {_TEMP: str(self._temp), RAY_RESULTS: str(self._temp / _RESULTS)}
        if not any(launch.env.get(name) for name in _TOKENS) and not Path("~/.ray/auth_token").expanduser().exists():
            # Ray would write one to the user's home.
            given[_TOKEN] = secrets.token_hex(32)
        return given

    def close(self, session: Session, pid: int, write: Callable[..., None], end: End) -> End:
        """End what Ray has started, keep the results, and remove Ray's folder."""
        if self._temp is not None:
            with contextlib.suppress(CutShortError):
                session.clear()
            with contextlib.suppress(OSError):
                shutil.move(self._temp / _RESULTS, self._results)
            shutil.rmtree(self._temp, ignore_errors=True)
            with contextlib.suppress(CutShortError):
                session.last([], _LAST)
            self._temp = None
        return end


def _make_folder(users: str) -> Path:
    """Return a new folder for Ray's files, where the user wants them, or else where their paths are short enough."""
    named = "breakrank-XXXXXXXX"
    bases = [base for base in (users, tempfile.gettempdir()) if base and len(os.path.join(base, named)) <= _MOST_PATH]
    for base in (*bases, "/tmp"):
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="breakrank-", dir=base))
    raise BreakrankError("Ray needs a folder with a short path, and /tmp cannot be written: name one with RAY_TMPDIR")
