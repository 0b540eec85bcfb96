"""The task prolog on a node, before each task: it has one deputy listen there, and says what the task is to find.

The task epilog, after each task, has the deputy tell all that it knows before Slurm ends what is left of the step.
Both are run as a script (`python3 -I -S on_node.py FOLDER prolog`), with the standard library alone, on Python 3.9 and
newer.

Slurm reads its stdout as commands (`export NAME=value`), so that it prints nothing else there, and passes its stderr
over: what goes wrong is one line in a file of FOLDER, which also holds `deputy` (what comes to the stdin of the
deputy's first code) and `settings.json`.

There is nothing to start if somebody listens already: another task of the node was faster, or the node is the machine
of pytest itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

#: Seconds within which a deputy listens, and between two looks.
_LISTENS_IN_S, _LOOK_S = 60.0, 0.02
#: Seconds that an epilog waits: Slurm ends it after five.
_GONE_IN_S = 4.0


def main(folder: Path) -> int:
    """Have a deputy listen, and export; return the exit code: with another one than 0, Slurm starts no task."""
    settings = json.loads((folder / "settings.json").read_text())
    environment = settings["environment"]
    why = _have_deputy(folder, environment[settings["home"]], settings["command"])
    if why:
        (folder / f"said-{os.uname().nodename}").write_text(f"node {os.uname().nodename}: {why}\n")
        return 0 if settings["guest"] else 1
    for name, value in environment.items():
        print(f"export {name}={value}")
    path = [word for word in os.environ.get("PYTHONPATH", "").split(os.pathsep) if word]
    if settings["agent"] not in path:
        print(f"export PYTHONPATH={os.pathsep.join([settings['agent'], *path])}")
    return 0


def _have_deputy(folder: Path, home: str, command: str) -> str:
    """Return when somebody listens at the address; else why nobody does."""
    until = time.monotonic() + _LISTENS_IN_S
    lock = socket.socket(socket.AF_UNIX)
    started: subprocess.Popen[bytes] | None = None
    with lock, tempfile.TemporaryFile() as said:
        while not _listens(home):
            if started is None and _takes(lock, home):
                started = _start(folder, command, said)
            elif started is not None and started.poll() is not None:
                return _last_line(said) or f"the deputy ended with {started.returncode}"
            if time.monotonic() > until:
                return f"no deputy listens after {_LISTENS_IN_S:g} s"
            time.sleep(_LOOK_S)
    return ""


def leave(folder: Path) -> int:
    """Tell the deputy of this node that the task is over; after the last one, wait until it has gone."""
    home = json.loads((folder / "settings.json").read_text())
    address, until = home["environment"][home["home"]] + "-over", time.monotonic() + _GONE_IN_S
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(until - time.monotonic())
            try:
                line.connect("\0" + address)
                line.sendall(os.environ.get("SLURM_PROCID", "").encode() or b"?")
                if line.recv(2):
                    break
            except OSError:
                break
        time.sleep(_LOOK_S)
    return 0


def _listens(home: str) -> bool:
    with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
        line.connect("\0" + home)
        return True
    return False


def _takes(lock: socket.socket, home: str) -> bool:
    """Return whether it is for this task to start the deputy: the lock is free again when its holder is gone."""
    try:
        lock.bind(f"\0{home}-starts")
    except OSError:
        return False
    return True


def _start(folder: Path, command: str, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the deputy, in a session of its own: Slurm kills the group of this process when it ends."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)])
    # It belongs to the node and not to a task: of these, it has nothing but the job's number.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BREAKRANK_", "PYTHON"))}
    with (folder / "deputy").open("rb") as sent:
        return subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=sent,
            stdout=subprocess.DEVNULL,
            stderr=said,
            cwd="/",
            env={**clean, "PATH": path},
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )


def _last_line(said: IO[Any]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    return lines[-1].replace("breakrank: ", "", 1) if lines else ""


#: The prolog and the epilog themselves: scripts for the shell, since it must be said where there is no Python.
SHELL = """\
#!/bin/sh
{users}
for python in python3 {python}; do
    if command -v "$python" >/dev/null 2>&1; then
        "$python" -I -S -B {script} {folder} {what}
        exit $?
    fi
done
echo "node $(uname -n): there is no python3" > {folder}/said-"$(uname -n)"
exit {code}
"""


def write_scripts(folder: Path, settings: dict[str, Any], sent: bytes, users: dict[str, str]) -> dict[str, str]:
    """Write prolog and epilog, and all that they read, into a folder of the run's, which the nodes see.

    Return the path of each. `users` are those that the user has in the environment: they run first, and what they print
    and their ends count.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "deputy").write_bytes(sent)
    script = folder / "on_node.py"
    script.write_bytes(Path(__file__).read_bytes())
    words = {"python": sys.executable, "script": str(script), "folder": str(folder)}
    quoted = {name: shlex.quote(word) for name, word in words.items()}
    written = {}
    for what in ("prolog", "epilog"):
        theirs = f"{shlex.quote(users[what])} || exit $?" if users.get(what) else ":"
        path = folder / f"{what}.sh"
        path.write_text(SHELL.format(users=theirs, what=what, code=int(not settings["guest"]), **quoted))
        path.chmod(0o700)
        written[what] = str(path)
    return written


if __name__ == "__main__":
    sys.exit((leave if sys.argv[2] == "epilog" else main)(Path(sys.argv[1])))
