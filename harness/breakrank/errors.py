"""The errors of Breakrank: each is one clear line for a person, with the cure."""

from __future__ import annotations


class BreakrankError(Exception):
    """Something that the person who started us can mend; the message is one line and says how."""


class CutShortError(BreakrankError):
    """Something that a run needs was taken away while it ran: the run is VOID, with this reason."""


class NoSpaceError(CutShortError):
    """The disk, or the user's share of it, is full."""
