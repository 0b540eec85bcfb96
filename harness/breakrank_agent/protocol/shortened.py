"""Texts that may be of any length, shortened for the record."""

from __future__ import annotations

#: The most letters of a message that the record has.
MOST = 2000


def shortened(text: str, most: int = MOST) -> str:
    """Return a text of at most so many letters: of a longer one the beginning and the end, where the cause may be."""
    if len(text) <= most:
        return text
    between = "\n...\n"
    half = (most - len(between)) // 2
    end = text[-half:]
    return text[:half] + between + (end.partition("\n")[2] or end)
