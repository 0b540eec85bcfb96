"""Writes one session into the memory, case by case, and lets the session go on if that cannot be done."""

from __future__ import annotations

import contextlib
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.memory.entries import NIGHTLY, Entry, Session
from breakrank.memory.spans import now
from breakrank.memory.store import WAIT_S, Store, UnusableError


class Recorder:
    """The writer of one session. It never raises: `lack` says why the file does not hold all, and is empty if it does.

    Results that could not be written are kept, and written with the next one or in the end, when the lock is gone or
    the disk has room. `joins` is the number of a session that the results are added to, in place of a new one.
    """

    def __init__(self, path: Path, session: Session, joins: int = 0, wait_s: float = WAIT_S) -> None:
        self._path, self._session, self._joins, self._wait_s = path, session, joins, wait_s
        self.id = 0
        self.lack = ""
        self._store: Store | None = None
        self._waiting: list[Entry] = []
        self._unusable = False
        self._selected: int | None = None

    def begin(self) -> None:
        """Write the session itself."""
        self._write(self._wait_s)

    def chosen(self, cases: int) -> None:
        """Note how many cases the session is to run."""
        self._selected = cases
        self._write(0.0 if self.lack else self._wait_s)

    def add(self, entry: Entry) -> None:
        """Write the result of one case, now or later."""
        self._waiting.append(entry)
        # After a first wait in vain the cases do not wait again, each as long.
        self._write(0.0 if self.lack else self._wait_s)

    def end(self, status: int) -> None:
        """Write what is left, and that the session has ended. A night is ended by who began it."""
        self._write(self._wait_s)
        if self._store is None:
            return
        try:
            if self._session.kind != NIGHTLY:
                self._store.update(self.id, ended=now(), exit=status)
        except BreakrankError as error:
            self.lack = str(error)
        self._close()

    def _write(self, wait_s: float) -> None:
        if self._unusable:
            return
        try:
            if self._store is None:
                self._store = Store(self._path, wait_s)
            if not self.id:
                self.id = self._begin(self._store)
            if self._selected is not None:
                self._store.update(self.id, selected=self._selected)
                self._selected = None
            if self._waiting:
                self._store.add(self.id, self._waiting)
            self._waiting.clear()
            self.lack = ""
        except BreakrankError as error:
            self.lack = str(error)
            self._unusable = isinstance(error, UnusableError)
            self._close()

    def _begin(self, store: Store) -> int:
        if not self._joins:
            return store.begin(self._session)
        there = [session for session in store.sessions() if session.id == self._joins]
        if not there:
            raise UnusableError(f"{self._path} has no session {self._joins}")
        known = ("host", "git", "image_id", "breakrank", "python", "torch", "tf")
        store.update(self._joins, **{name: getattr(self._session, name) for name in known})
        self._session = there[0]
        return self._joins

    def _close(self) -> None:
        # The next write opens it anew: an error may have left it in any state.
        store, self._store = self._store, None
        if store is not None:
            with contextlib.suppress(BreakrankError):
                store.close()
