"""The name of a session, from which its owner can be found: whatever it starts carries it in the environment."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

#: The variable that every process of ours carries: who owns it.
VARIABLE = "BREAKRANK_SESSION"


def session_id() -> str:
    """Return a name for a session of this process: who owns it can be found out from it."""
    return f"{os.getpid()}-{_started(os.getpid())}-{_namespace()}-{secrets.token_hex(4)}"


def is_alive(session: str) -> bool:
    """Return whether the owner of a session lives; yes, where it would not be seen from here."""
    pid, started, namespace = ([*session.split("-"), "", "", ""])[:3]
    return namespace != _namespace() or (pid.isdigit() and _started(int(pid)) == started)


def _namespace() -> str:
    """Return which processes are seen from here: the number of the namespace (pid_namespaces(7))."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _started(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot: with the pid, it is unique. Empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""
