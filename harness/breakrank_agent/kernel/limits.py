"""The limits of another process (getrlimit(2)), which may be somebody else's."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

#: The names that prlimit(1) has for them.
_NAMES = {resource.RLIMIT_FSIZE: "fsize", resource.RLIMIT_NOFILE: "nofile", resource.RLIMIT_AS: "as"}


def soft_and_hard(pid: int, which: int) -> tuple[int, int]:
    """Return both limits of a process. Raises `OSError`."""
    try:
        return resource.prlimit(pid, which)
    except PermissionError:
        said = _as_its_user(pid, f"--{_NAMES[which]}", "--output=SOFT,HARD", "--noheadings", "--raw")
    soft, hard = (resource.RLIM_INFINITY if word == "unlimited" else int(word) for word in said.split())
    return soft, hard


def set_soft_and_hard(pid: int, which: int, soft: int, hard: int) -> None:
    """Set both limits of a process, the hard one at most as high as it is. Raises `OSError`."""
    try:
        resource.prlimit(pid, which, (soft, hard))
    except PermissionError:
        words = ["unlimited" if limit == resource.RLIM_INFINITY else str(limit) for limit in (soft, hard)]
        _as_its_user(pid, f"--{_NAMES[which]}={':'.join(words)}")


def _as_its_user(pid: int, *arguments: str) -> str:
    """Return what prlimit(1) prints as the user of a process, which root may become even without CAP_SYS_RESOURCE."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    user, group = (int(fields[name].split()[0]) for name in ("Uid", "Gid"))
    command = ["prlimit", "--pid", str(pid), *arguments]
    if os.geteuid() != 0 or user == 0:
        raise PermissionError("the limits of somebody else's process are for root, with CAP_SYS_RESOURCE")
    done = subprocess.run(command, user=user, group=group, extra_groups=[], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(done.stderr.strip() or f"prlimit ended with {done.returncode}")
    return done.stdout
