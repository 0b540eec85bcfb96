"""The variables of the loops in which the user's code calls a collective: they tell calls from one line apart."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Optional

from breakrank_agent.agent.call_sites import Sites

#: The references to a frame's copy of its variables of which the program has none: ours, the frame's, and the call's.
_OURS = 3
#: The most frames of the user's code that are looked at for a loop, and the most that is said of a value.
_FRAMES, _LENGTH = 3, 60


class LoopVariables:
    """Finds the variables of the innermost function that calls from a loop, by the source of the program."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        #: By file: the first and the last line of each loop's body, and the names that the loop sets.
        self._loops: dict[str, Sequence[tuple[int, int, tuple[str, ...]]]] = {}

    def here(self) -> str:
        """Return the names and values of the loops around the user's current line; empty if there are none."""
        frame, seen = _outwards(sys._getframe(1)), 0
        while frame is not None and seen < _FRAMES:
            if not self._sites.is_foreign(frame.f_code):
                names = self._names(frame)
                if names:
                    return self._said(frame, names)
                seen += 1
            frame = frame.f_back
        return ""

    def _names(self, frame: FrameType) -> list[str]:
        """Return what the loops of a frame's function set around its current line."""
        file, line, first = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_firstlineno
        if file not in self._loops:
            self._loops[file] = _loops_of(file)
        around = [names for begin, end, names in self._loops[file] if first <= begin <= line <= end]
        return [name for names in around for name in names if name in frame.f_code.co_varnames or first == 1]

    def _said(self, frame: FrameType, names: Sequence[str]) -> str:
        held = frame.f_locals
        said = {name: _text(held[name]) for name in names if name in held}
        # Before Python 3.13 a function's frame keeps this copy, and with it what the program deletes later: a wrapper
        # that outlives its process group can deadlock. A copy that the program has by `locals()` stays as it is.
        if isinstance(held, dict) and frame.f_code.co_flags & inspect.CO_OPTIMIZED and sys.getrefcount(held) <= _OURS:
            for name in _variables(frame):
                held.pop(name, None)
        return ", ".join(f"{name} {text}" for name, text in said.items() if text)


def _outwards(frame: Optional[FrameType]) -> Optional[FrameType]:
    return frame.f_back if frame is not None else None


def _variables(frame: FrameType) -> tuple[str, ...]:
    code = frame.f_code
    return (*code.co_varnames, *code.co_cellvars, *code.co_freevars)


def _loops_of(file: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return the loops of a source file; none of one that cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.AsyncFor)):
            names = tuple(one.id for one in ast.walk(node.target) if isinstance(one, ast.Name))
            found.append((node.body[0].lineno, node.body[-1].end_lineno or 0, names))
    return found


def _text(value: Any) -> str:
    """Return a short text or a whole number as it is; empty for anything else."""
    if isinstance(value, str):
        return value[:_LENGTH]
    return str(value) if type(value) is int else ""
