"""Callbacks: the functions that hooks have called at the moments that the agent knows of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable


@dataclass
class Callbacks:
    """The subscribers of one agent, by moment. A hook appends a function of its own; they are called in that order."""

    #: Called before each point of the main thread is entered.
    point: list[Callable[[], None]] = field(default_factory=list)
    #: Called at the end of each step, when all else of the step is on record.
    step_end: list[Callable[[], None]] = field(default_factory=list)
    #: Called when a process goes on as a watched child of the rank, before it does anything that is recorded.
    child_begin: list[Callable[[], None]] = field(default_factory=list)
    #: Each makes a context that one thread of the user's runs in, so that hooks of frameworks see what the thread does.
    user_thread: list[Callable[[], Any]] = field(default_factory=list)
    #: Called when a thread that Python has not started touches something that is watched.
    native_thread: list[Callable[[], None]] = field(default_factory=list)
