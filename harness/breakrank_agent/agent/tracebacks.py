"""Keeps the agent's own frames out of what a user sees of an exception."""

from __future__ import annotations


def hide(error: BaseException) -> None:
    """Drop the frame that has just caught `error` from its traceback; a bare `raise` then goes on without it.

    Called first of all in the `except` of a wrapper. Python 3.11 and newer take the traceback from the exception when
    it is raised again; older ones show one line of ours.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
