"""Call sites: the innermost frame of the user's code, neither a framework's, Python's nor ours."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import NamedTuple, Optional


class Site(NamedTuple):
    """A line of the user's code, as `file:line`, and the function that it is in; both empty where there is none."""

    line: str = ""
    function: str = ""


NOWHERE = Site()
#: Stands for the definition of a function where its instructions are numbered.
_DEFINED = -2
#: The most functions that are kept as not the user's.
_PASSED = 4096


class Sites:
    """Finds sites in all code but Python's, our own, and what a hook has named as its framework's."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._foreign = [os.path.dirname(os.path.dirname(__file__))]
        self._python = sysconfig.get_paths()["stdlib"] + os.sep
        self._files: dict[str, Optional[str]] = {}
        #: By code and instruction.
        self._places: dict[tuple[int, int], tuple[Site, CodeType]] = {}
        #: Functions that are not the user's, by identity: they lie between the user's code and each collective.
        self._passed: dict[int, CodeType] = {}

    def add_foreign(self, path: str) -> None:
        """Take the code of a folder, or of a file, for a framework's from now on."""
        self._foreign.append(path)
        # In a rank that starts cold, the framework's own import has opened files: its code passed for the user's.
        self._files.clear()
        self._places.clear()
        self._passed.clear()

    def here(self) -> Site:
        """Return where the user's code is now."""
        return self.above(sys._getframe(1))

    def above(self, frame: Optional[FrameType]) -> Site:
        """Return the innermost line of the user's code from a frame outwards."""
        files, places, passed = self._files, self._places, self._passed
        while frame is not None:
            code = frame.f_code
            if id(code) in passed:
                frame = frame.f_back
                continue
            known = places.get((id(code), frame.f_lasti))
            if known is not None:
                return known[0]
            name = code.co_filename
            file = files.get(name, "")
            if file == "":
                file = self._file(name)
            if file is not None:
                return self._learn(code, frame.f_lasti, frame.f_lineno)
            if len(passed) < _PASSED:
                passed[id(code)] = code
            frame = frame.f_back
        return NOWHERE

    def at(self, file: str, line: int) -> str:
        """Return a line of a file as `file:line`, if it is the user's, and else nothing."""
        name = self._file(file)
        return f"{name}:{line}" if name is not None else ""

    def of(self, code: CodeType) -> Site:
        """Return where a function is defined, if it is the user's."""
        if self.is_foreign(code):
            return NOWHERE
        known = self._places.get((id(code), _DEFINED))
        return known[0] if known is not None else self._learn(code, _DEFINED, code.co_firstlineno)

    def is_foreign(self, code: CodeType) -> bool:
        """Return whether a function is a framework's, Python's or ours."""
        return self._file(code.co_filename) is None

    def _learn(self, code: CodeType, at: int, line: int) -> Site:
        """Return a line as a site, known by its instruction from now on: to ask a frame for its line takes long."""
        site = Site(f"{self._file(code.co_filename)}:{line}", code.co_name)
        # By identity, as a code object is hashed by all that is in it; the one that is kept keeps its identity, too.
        self._places[id(code), at] = site, code
        return site

    def _file(self, name: str) -> Optional[str]:
        """Return a file as it reads from the working folder or the path of imports, or None if it is foreign."""
        if name not in self._files:
            self._files[name] = None if self._is_foreign(name) else self._relative(os.path.abspath(name))
        return self._files[name]

    def _is_foreign(self, name: str) -> bool:
        if name.startswith("<") or any(name == path or name.startswith(path + os.sep) for path in self._foreign):
            return True
        # Below the folder of Python's own modules lies that of installed packages, which are the user's choice.
        return name.startswith(self._python) and not name[len(self._python) :].startswith(("site-", "dist-"))

    def _relative(self, name: str) -> str:
        above = [f for f in (self._folder, *sys.path) if f and name.startswith(os.path.abspath(f) + os.sep)]
        longest = max((os.path.abspath(f) for f in above), key=len, default="")
        return os.path.relpath(name, longest) if longest else os.path.basename(name)
