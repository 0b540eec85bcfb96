"""The namespaces of a container: entered from outside, and its processes as they are seen from here."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from pathlib import Path

import docker
from docker.errors import NotFound

from breakrank.errors import BreakrankError
from breakrank.host.blocked.threads import read_numbers
from breakrank.host.session_name import VARIABLE
from breakrank.runners.docker.engine import engine, is_rootless
from breakrank.runners.namespaces import KINDS

#: Seconds for the first process to be seen in /proc once the engine says that it runs. A limit, too.
_SEEN_S = 5.0


def kinds() -> tuple[str, ...]:
    """Return the kinds of namespaces around a container: without root, the user's own lets us into the others."""
    return KINDS if os.geteuid() == 0 or not is_rootless() else ("user", *KINDS)


@functools.cache
def pid_mode() -> str | None:
    """Return whose processes the containers are to be among, if we are in a container that sees only its own."""
    if not os.path.exists("/.dockerenv"):
        return None
    try:
        ours = engine().containers.get(socket.gethostname())
    except NotFound:
        return None
    return None if ours.attrs["HostConfig"]["PidMode"] == "host" else f"container:{ours.id}"


def pid_seen_from_here(handle: docker.models.containers.Container) -> int:
    """Return the pid of a container's first process as it is seen from here, 0 if it has ended.

    Raises `BreakrankError` if it is not seen. The engine says the pid that it sees itself; from inside of a container
    that is another one, or somebody else's.
    """
    marks = (f"{VARIABLE}=", "BREAKRANK_ZYGOTE=", "HOSTNAME=")
    expected = {line.encode() for line in handle.attrs["Config"]["Env"] if line.startswith(marks)}
    until = time.monotonic() + _SEEN_S
    while own := int(handle.attrs["State"]["Pid"]):
        for pid in (own, *(int(name) for name in os.listdir("/proc") if name.isdigit())):
            # The engine may say that it runs before its program is executed.
            with contextlib.suppress(OSError):
                if expected <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")):
                    return pid
        if time.monotonic() > until:
            raise BreakrankError(
                "the engine's processes are not seen from here: use an engine of this machine, or be root"
            )
        try:
            handle.reload()
        except NotFound:
            return 0
    return 0


def inner_pid(pid: int) -> int:
    """Return how a process is called in its own process namespace; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return (read_numbers(f"/proc/{pid}") or [0])[-1]
    return 0
