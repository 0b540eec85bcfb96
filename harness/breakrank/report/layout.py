"""Text in a given width: lines that are wrapped or shortened by the cells that a terminal draws them in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

#: Characters that are drawn over the one before them, or not at all.
_NO_CELL = frozenset(("Mn", "Me", "Cf"))
#: Narrower than this, a text is not wrapped any more: a word a line shows nothing.
_LEAST = 20


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(letter: str) -> int:
    if unicodedata.category(letter) in _NO_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fit(text: str, width: int) -> tuple[str, str]:
    """Return the most of a text that `width` cells hold, and the rest."""
    taken = 0
    for place, letter in enumerate(text):
        taken += _cells_of(letter)
        if taken > width:
            return text[:place], text[place:]
    return text, ""


def shorten(text: str, width: int) -> str:
    """Return a text of at most `width` cells; one that is cut ends in an ellipsis."""
    return text if cells(text) <= width else f"{fit(text, max(0, width - 1))[0].rstrip()}…"


def pad(text: str, width: int) -> str:
    """Return a text with spaces up to `width` cells."""
    return text + " " * max(0, width - cells(text))


def wrapped(line: str, width: int, hang: int = 2) -> list[str]:
    """Return a line as lines of at most `width` cells, the later ones indented by `hang` more; 0: it stays one."""
    if not width or cells(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip(" "))
    hanging = " " * (indent + hang if width - indent - hang >= _LEAST else 0)
    return list(_broken(line[indent:], " " * indent, hanging, width))


def _broken(text: str, first: str, later: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, broken at spaces, or within a word that is longer than a line."""
    line, empty = first, True
    for word in re.findall(r"\s*\S+", text):
        while word:
            room = width - cells(line)
            if cells(word) <= room:
                line, word, empty = line + word, "", False
            elif empty:
                part, word = fit(word, max(1, room))
                yield line + part
                line = later
            else:
                yield line
                line, word, empty = later, word.lstrip(), True
    if not empty:
        yield line
