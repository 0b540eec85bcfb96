"""The file of the memory, `history.sqlite`: how it is opened, written and read.

The journal is a rollback journal: a write-ahead log needs memory that all processes share, which folders on other
machines do not have (sqlite.org/wal.html), and one small write a case is fast enough without. Only the controller of a
session writes. A file from elsewhere is data: its views and triggers are not trusted, and no link is followed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.memory.entries import Entry, Session
from breakrank.memory.schema import STEPS, migrate, version

NAME = "history.sqlite"
#: Seconds that a write waits for another process that writes.
WAIT_S = 10.0
_SESSION = tuple(f.name for f in fields(Session) if f.name != "id")
_ENTRY = tuple(f.name for f in fields(Entry) if f.name not in ("session", "again"))
#: The longest text of one field: some frameworks raise pages.
_MOST_TEXT = 2000


class UnusableError(BreakrankError):
    """The file cannot be used, and to try again is of no use: it is newer than this program, or damaged."""


class Store:
    """An open file. Errors are a `BreakrankError` of one line; those that do not pass are an `UnusableError`."""

    def __init__(self, path: Path, wait_s: float = WAIT_S, write: bool = True) -> None:
        self.path = path
        with self._told():
            _check_file(path, write)
            # A journal that a killed writer left is rolled back by whoever reads next, for which it has to write.
            mode = "rw" if write or os.access(path, os.W_OK) else "ro"
            uri = f"{path.absolute().as_uri()}?mode={mode}"
            self._connection = sqlite3.connect(uri, timeout=wait_s, isolation_level=None, uri=True)
            try:
                self._prepare(write)
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _prepare(self, write: bool) -> None:
        """Bring an older file up to date. Raises `UnusableError` for a newer one."""
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        # One transaction: another process may make the tables between the two questions.
        self._connection.execute("BEGIN")
        there = version(self._connection)
        kinds = dict(self._connection.execute("SELECT name, type FROM sqlite_master"))
        self._connection.execute("COMMIT")
        if there > len(STEPS):
            raise UnusableError(
                f"{self.path} was written by a newer Breakrank (version {there}, this one knows {len(STEPS)}); "
                "update this one, or move the file away"
            )
        self._check_tables(there, kinds)
        if write:
            migrate(self._connection)
        elif there < len(STEPS):
            self._read_copy()

    def _check_tables(self, there: int, kinds: Mapping[str, str]) -> None:
        """Raise `UnusableError` for tables of somebody else's, and for a query that stands in for one of ours."""
        ours = {kinds.get("sessions"), kinds.get("results")} == {"table"}
        if not ours if there else kinds:
            raise UnusableError(f"{self.path} is no history of Breakrank; move it away, and a new one is begun")

    def _read_copy(self) -> None:
        """Go on with a copy in memory that is up to date: an older file that cannot be written is read as well."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.backup(copy)
        copy.text_factory = self._connection.text_factory
        self._connection.close()
        self._connection = copy
        migrate(copy)

    def begin(self, session: Session) -> int:
        """Add a session; return its number."""
        row = {name: getattr(session, name) for name in _SESSION}
        row["argv"] = json.dumps(session.argv)
        with self._told():
            return self._insert("sessions", row)

    def update(self, session: int, **values: Any) -> None:
        """Write values of a session anew."""
        named = ", ".join(f"{name} = :{name}" for name in values)
        with self._told():
            self._connection.execute(f"UPDATE sessions SET {named} WHERE id = :id", {**values, "id": session})

    def forget(self, session: int) -> None:
        """Remove a session that has no result."""
        with self._told():
            unused = "id = ? AND NOT EXISTS (SELECT 1 FROM results WHERE session = sessions.id)"
            self._connection.execute(f"DELETE FROM sessions WHERE {unused}", (session,))

    def add(self, session: int, entries: Sequence[Entry]) -> None:
        """Add results with their further attempts, all or none; one that a case has in this session is replaced."""
        with self._told(), self._transaction():
            for entry in entries:
                self._replace(session, entry)
                first = self._insert("results", {**_row(entry), "session": session})
                for one in entry.again:
                    self._insert("results", {**_row(one), "session": session, "attempt_of": first})

    def _replace(self, session: int, entry: Entry) -> None:
        """Remove the result that a case has in a session, with its further attempts."""
        case = 'session = ? AND scenario = ? AND "case" = ?'
        self._connection.execute(f"DELETE FROM results WHERE {case}", (session, entry.scenario, entry.case))

    def sessions(self) -> list[Session]:
        """Return all sessions, in the order of their numbers."""
        with self._told():
            rows = self._connection.execute(f"SELECT id, {', '.join(_SESSION)} FROM sessions ORDER BY id")
            return [_session(dict(zip(("id", *_SESSION), row, strict=True))) for row in rows]

    def entries(self, sessions: Sequence[int]) -> dict[int, list[Entry]]:
        """Return the results of sessions in the order in which they were written, further attempts inside of them."""
        columns = ("id", "session", "attempt_of", *_ENTRY)
        named = ", ".join(f'"{name}"' for name in columns)
        found: dict[int, list[Entry]] = {}
        with self._told():
            for session in sessions:
                query = f"SELECT {named} FROM results WHERE session = ? ORDER BY id"
                rows = [dict(zip(columns, row, strict=True)) for row in self._connection.execute(query, (session,))]
                found[session] = _entries(rows)
        return found

    def _insert(self, table: str, row: dict[str, Any]) -> int:
        named = ", ".join(f'"{name}"' for name in row)
        held = ", ".join(f":{name}" for name in row)
        return int(self._connection.execute(f"INSERT INTO {table} ({named}) VALUES ({held})", row).lastrowid or 0)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite and the file system object to into one line with the cure."""
        try:
            yield
        except OSError as error:
            raise BreakrankError(f"{self.path} cannot be used: {error.strerror}") from None
        except sqlite3.OperationalError as error:
            raise BreakrankError(f"{self.path} cannot be used: {error}{_cure(str(error))}") from None
        except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
            raise UnusableError(f"{self.path} is damaged: {error}; move it away, and a new one is begun") from None


def _check_file(path: Path, write: bool) -> None:
    """Make the file if it is not there, for its owner alone. Raises `OSError`, and `BreakrankError` for a link."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if path.is_symlink():
        raise UnusableError(f"{path} is a symbolic link, which is not followed; name the file itself")
    descriptor = os.open(path, flags | (os.O_RDWR | os.O_CREAT if write else os.O_RDONLY), 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnusableError(f"{path} is no regular file; move it away")
    finally:
        os.close(descriptor)


def _cure(error: str) -> str:
    """Return what can be done about an error of SQLite, if that is known."""
    cures = {
        "locked": "; another process holds it, end that one",
        "full": "; free some space",
        "readonly": "; make it writable",
        "no such": "; it is no history of Breakrank, move it away",
    }
    return next((cure for word, cure in cures.items() if word in error), "")


def _row(entry: Entry) -> dict[str, Any]:
    row = {name: getattr(entry, name) for name in _ENTRY}
    # SQLite takes no surrogate: a folder's name may hold bytes that are no UTF-8.
    return {name: _storable(value) if isinstance(value, str) else value for name, value in row.items()}


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:_MOST_TEXT]


def _session(row: dict[str, Any]) -> Session:
    """Return a session of what a row holds. Raises `ValueError` or `TypeError` for what is none."""
    argv = json.loads(_text(row["argv"]))
    if not isinstance(argv, list):
        raise ValueError("argv is no list")
    numbers = {"id": int(row["id"]), "selected": int(row["selected"])}
    exit_code = None if row["exit"] is None else int(row["exit"])
    texts = {name: _text(row[name]) for name in _SESSION if name not in ("argv", "selected", "exit")}
    return Session(**texts, argv=tuple(map(str, argv)), selected=numbers["selected"], exit=exit_code, id=numbers["id"])


def _entries(rows: Sequence[dict[str, Any]]) -> list[Entry]:
    again: dict[int, list[Entry]] = {}
    for row in rows:
        if row["attempt_of"] is not None:
            again.setdefault(int(row["attempt_of"]), []).append(_entry(row))
    return [_entry(row, tuple(again.get(row["id"], ()))) for row in rows if row["attempt_of"] is None]


def _entry(row: dict[str, Any], again: tuple[Entry, ...] = ()) -> Entry:
    """Return a result of what a row holds. Raises `ValueError` or `TypeError` for what is none."""
    others = ("seed", "seconds", "as_recorded")
    texts = {name: _text(row[name]) for name in _ENTRY if name not in others}
    held = None if row["as_recorded"] is None else bool(row["as_recorded"])
    seconds, seed, session = float(row["seconds"]), int(row["seed"]), int(row["session"])
    return Entry(**texts, seed=seed, seconds=seconds, as_recorded=held, session=session, again=again)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} is no text")
    return value
