"""The native stacks of a stopped process, read by gdb."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: A dying rank stands still while it is looked at, and its peers wait.
LIMIT_S = 10.0
#: Symbols are loaded for the libraries in the stacks alone, and as they are: for all of torch's it takes ten seconds.
_SETTINGS = ("auto-solib-add off", "demangle-style none", "debuginfod enabled off", "pagination off")
_MARK = "breakrank: "


@dataclass(frozen=True)
class Native:
    """The native calls of each thread by its number, innermost first; the thread that died, and at which address.

    `unread` is why there are none.
    """

    stacks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    died: int = 0
    address: str = ""
    unread: str = ""


def no_debugger() -> str:
    """Return why no debugger can be used here, with the cure, or the empty string."""
    return "" if shutil.which("gdb") else "gdb is not installed; apt-get install gdb"


def read_native(pid: int, threads: Sequence[int]) -> Native:
    """Attach gdb to a stopped process, read the stacks of these threads, and detach."""
    if no_debugger():
        return Native(unread=no_debugger())
    settings = [word for setting in _SETTINGS for word in ("-iex", f"set {setting}")]
    command = ["gdb", "-nx", "-batch", *settings, "-p", str(pid), "-x", str(Path(__file__).with_name("gdb_script.py"))]
    environment = {**os.environ, "BREAKRANK_THREADS": ",".join(map(str, threads))}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            said, complaints = process.communicate(timeout=LIMIT_S)
            unread = ""
        except subprocess.TimeoutExpired:
            # It lets go of the process when it ends; what it had read by then is good.
            process.terminate()
            said, complaints = process.communicate()
            unread = f"gdb did not come to an end within {LIMIT_S:g} s"
    seen = _read(said)
    if not seen and not unread:
        unread = next((line for line in complaints.splitlines() if "ptrace" in line), "gdb said nothing")
    stacks = {thread["thread"]: tuple(thread["calls"]) for thread in seen}
    for thread in seen:
        if thread["address"] is not None:
            return Native(stacks, thread["thread"], thread["address"], unread)
    return Native(stacks, unread=unread)


def _read(said: str) -> list[dict[str, Any]]:
    """Return what was said of each thread; gdb's own words may follow on the same line, and the last may be cut."""
    seen = []
    for line in said.splitlines():
        if line.startswith(_MARK):
            with contextlib.suppress(ValueError):
                seen.append(json.JSONDecoder().raw_decode(line, len(_MARK))[0])
    return seen
