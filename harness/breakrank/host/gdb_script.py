"""Runs within gdb, which is attached to a stopped process: prints the native stacks of its threads as JSON."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import gdb

_MOST = 40
_WIDTH = 120
#: The place of a fault's address for a signal handler on x86-64: cr2 in ucontext_t, behind the frame.
_FAULT_AT = 216

_loaded: set[str] = set()


def main() -> None:
    """Look at each thread that is asked for, and print at once what was seen."""
    wanted = [int(tid) for tid in os.environ["BREAKRANK_THREADS"].split(",")]
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] in wanted:
            calls, address = _look(thread)
            seen = {"thread": thread.ptid[1], "calls": calls, "address": address}
            print("breakrank: " + json.dumps(seen), flush=True)


def _look(thread: Any) -> tuple[list[str], str | None]:
    """Return the calls of a thread, and, if it is in a signal handler, the address of the fault; innermost first.

    A stack is read again from its top whenever it leads into a library of which the symbols are not loaded yet.
    """
    thread.switch()
    calls: list[str] = []
    address = None
    frame = gdb.newest_frame()
    while frame is not None and len(calls) < _MOST:
        library = gdb.solib_name(frame.pc())
        if library and library not in _loaded:
            _loaded.add(library)
            gdb.execute(f"sharedlibrary {re.escape(library)}", to_string=True)
            calls, address, frame = [], None, gdb.newest_frame()
            continue
        if frame.type() == gdb.SIGTRAMP_FRAME:
            # The frames before it are faulthandler at work.
            calls, address = [], _fault(frame)
        elif frame.name():
            calls.append(frame.name())
        try:
            frame = frame.older()
        except gdb.error:
            break
    gdb.execute("set demangle-style gnu-v3")
    named = [_named(name) for name in calls]
    gdb.execute("set demangle-style none")
    return named, address


def _fault(frame: Any) -> str:
    """Return the address at which the fault was, as far as this machine tells it."""
    try:
        stack = int(frame.read_register("rsp")) & (1 << 64) - 1
        raw = bytes(gdb.selected_inferior().read_memory(stack + _FAULT_AT, 8))
    except (gdb.error, ValueError):
        return ""
    return f"{int.from_bytes(raw, 'little'):#x}"


def _named(name: str) -> str:
    """Return a function's name as a person writes it, if gdb can tell it."""
    if name.startswith("_Z"):
        try:
            name = gdb.execute(f"demangle -l c++ -- {name}", to_string=True).strip()
        except gdb.error:
            return name[:_WIDTH]
    return name.partition("(")[0][-_WIDTH:] if not name.startswith("(") else name[:_WIDTH]


main()
