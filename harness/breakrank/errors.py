"""The errors of Breakrank: each is one clear line for a person, with the cure."""

from __future__ import annotations


class BreakrankError(Exception):
    """Something that the person who started us can mend; the message is one line and says how."""


class NoSpaceError(BreakrankError):
    """The disk, or the user's share of it, is full: a run that meets it is VOID."""
