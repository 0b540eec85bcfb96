"""The native stacks of a stopped process, read by gdb."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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


def read_native(pid: int) -> Native:
    """Attach gdb to a stopped process, read its stacks, and detach."""
    if no_debugger():
        return Native(unread=no_debugger())
    settings = [word for setting in _SETTINGS for word in ("-iex", f"set {setting}")]
    script = str(Path(__file__).with_name("in_gdb.py"))
    command = ["gdb", "-nx", "-batch", *settings, "-p", str(pid), "-x", script]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return Native(unread=f"gdb did not come to an end within {LIMIT_S:g} s")
    said = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not said:
        why = next((line for line in done.stderr.splitlines() if "ptrace" in line), "no word")
        return Native(unread=f"gdb could not read it: {why.strip()}")
    seen = json.loads(said[0][len(_MARK) :])
    stacks = {int(tid): tuple(calls) for tid, calls in seen["stacks"].items()}
    return Native(stacks, seen["died"], seen["address"])
