"""Quiet: the threads in which the agent itself works with tensors or files, so that hooks pass it through unseen."""

from __future__ import annotations

from threading import get_ident


class Quiet:
    """A context that a thread may enter several times. It is entered around a fork, too."""

    __slots__ = ("threads",)

    def __init__(self) -> None:
        #: The number of times that each thread has entered it, by identity.
        self.threads: dict[int, int] = {}

    def __enter__(self) -> None:
        ident = get_ident()
        self.threads[ident] = self.threads.get(ident, 0) + 1

    def __exit__(self, *_: object) -> None:
        ident = get_ident()
        self.threads[ident] -= 1
        if not self.threads[ident]:
            del self.threads[ident]
