"""Forks: a child that the rank forks is no rank; one that is watched goes on with a log of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from threading import get_ident
from typing import Optional

from breakrank_agent.agent.access_log import Accesses, process_key
from breakrank_agent.agent.callbacks import Callbacks
from breakrank_agent.agent.quiet import Quiet
from breakrank_agent.agent.recorder import Recorder
from breakrank_agent.protocol.log import LogWriter


class Forks:
    """The forks of one process, and what it becomes if it is such a child itself."""

    def __init__(self, rank: int, recorder: Recorder, accesses: Accesses, quiet: Quiet, on: Callbacks) -> None:
        self._rank = rank
        self._recorder = recorder
        self._accesses = accesses
        self._quiet = quiet
        self._on = on
        #: The paths of the log and of the plan, if they have some that a child can open, too.
        self.log_path = self.plan_path = ""
        #: The name and the log of the child that a thread is about to fork and that is to be watched, and the thread.
        self._announced: Optional[tuple[str, str, int]] = None
        # Python renews locks in the child before we leave it, unseen.
        os.register_at_fork(before=quiet.__enter__, after_in_parent=quiet.__exit__, after_in_child=self._leave)

    @contextlib.contextmanager
    def announced(self, name: str, path: str) -> Iterator[None]:
        """Have the child that this thread forks meanwhile watched, under a name and with the log at `path`."""
        self._announced = name, path, get_ident()
        try:
            yield
        finally:
            self._announced = None

    def be_child(self, name: str, path: str) -> None:
        """Go on as a child that is watched, with the log at `path`."""
        self._recorder.begin_anew(name, LogWriter(path))
        self.log_path, self._announced = path, None
        self._quiet.threads.clear()
        for follow in self._on.child_begin:
            follow()
        self._accesses.sync("acquire", process_key(self._rank, name))

    def _leave(self) -> None:
        """Record nothing more in a child that was forked, unless it was announced."""
        self._recorder.here = False
        self._recorder.end()
        if self._announced is not None and self._announced[2] == get_ident():
            self.be_child(*self._announced[:2])
