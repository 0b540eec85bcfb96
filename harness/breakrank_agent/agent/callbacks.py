"""Callbacks: the functions that hooks have called at the moments that the agent knows of."""

from __future__ import annotations

from typing import Any, Callable


class Callbacks:
    """The subscribers of one agent, by moment. A hook appends a function of its own; they are called in that order."""

    __slots__ = (
        "backward",
        "child_begin",
        "evaluated",
        "forward",
        "forwarded",
        "handed",
        "main_leave",
        "main_take",
        "native_thread",
        "optimize",
        "optimized",
        "other_optimizer",
        "point",
        "step_end",
        "user_thread",
    )

    def __init__(self) -> None:
        #: Called before each backward pass of the main thread, with what it begins from.
        self.backward: list[Callable[[Any], None]] = []
        #: Called before the forward pass of each outermost module, with the module.
        self.forward: list[Callable[[Any], None]] = []
        #: Called then, too, if that module is in eval mode.
        self.evaluated: list[Callable[[Any], None]] = []
        #: Called then, too, with what the outermost module is handed: arguments by place, and by name.
        self.handed: list[Callable[[Any, Any], None]] = []
        #: Called after each of them.
        self.forwarded: list[Callable[[], None]] = []
        #: Called before each step of an optimizer, and after it, with its number (0: it trains nothing) and itself.
        self.optimize: list[Callable[[int, Any], None]] = []
        self.optimized: list[Callable[[int, Any], None]] = []
        #: Called before the step of an optimizer that need not be the one of the step before.
        self.other_optimizer: list[Callable[[], None]] = []
        #: Called before each point of the main thread is entered.
        self.point: list[Callable[[], None]] = []
        #: Called at the end of each step, when all else of the step is on record.
        self.step_end: list[Callable[[], None]] = []
        #: Called when another thread goes on as the rank: in the one that has been the main one, then in the other.
        self.main_leave: list[Callable[[], None]] = []
        self.main_take: list[Callable[[], None]] = []
        #: Called when a process goes on as a watched child of the rank, before anything of it is recorded.
        self.child_begin: list[Callable[[], None]] = []
        #: Each makes a context in which a thread of the user's runs, so that hooks of frameworks see what it does.
        self.user_thread: list[Callable[[], Any]] = []
        #: Called when a thread that Python has not started touches something that is watched.
        self.native_thread: list[Callable[[], None]] = []
