"""The tables of `history.sqlite`, and the steps that bring an older file up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

_FIRST = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    began TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL DEFAULT '',
    git TEXT NOT NULL DEFAULT '',
    image TEXT NOT NULL DEFAULT '',
    breakrank TEXT NOT NULL DEFAULT '',
    python TEXT NOT NULL DEFAULT '',
    torch TEXT NOT NULL DEFAULT '',
    tf TEXT NOT NULL DEFAULT '',
    argv TEXT NOT NULL DEFAULT '[]',
    selected INTEGER NOT NULL DEFAULT 0,
    exit INTEGER
);
CREATE TABLE results (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES sessions (id),
    scenario TEXT NOT NULL,
    "case" TEXT NOT NULL,
    family TEXT NOT NULL DEFAULT '',
    mechanism TEXT NOT NULL DEFAULT '',
    runner TEXT NOT NULL DEFAULT '',
    seed INTEGER NOT NULL DEFAULT 0,
    plan TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '',
    finding TEXT NOT NULL DEFAULT '',
    sentence TEXT NOT NULL DEFAULT '',
    record TEXT NOT NULL DEFAULT '',
    as_recorded INTEGER,
    digest TEXT NOT NULL DEFAULT '',
    seconds REAL NOT NULL DEFAULT 0,
    blame TEXT NOT NULL DEFAULT '',
    folder TEXT NOT NULL DEFAULT '',
    attempt_of INTEGER REFERENCES results (id)
);
CREATE UNIQUE INDEX one_result_a_case ON results (session, scenario, "case") WHERE attempt_of IS NULL;
CREATE INDEX results_of_a_case ON results (scenario, "case");
CREATE INDEX further_attempts ON results (attempt_of);
"""

#: The index of version 1 that begins with the session is partial, and of no use for all results of one.
_SECOND = "CREATE INDEX results_of_a_session ON results (session);"

#: The digest of the image, by which an image is known whose name was given to another one since.
_THIRD = "ALTER TABLE sessions ADD COLUMN image_id TEXT NOT NULL DEFAULT ''"

#: The step from each version to the next: the first one makes an empty file to version 1. A file that was written
#: once can lie anywhere, so steps are added and never changed; tests/unit/memory/files has a file of each version.
STEPS: Sequence[str] = (_FIRST, _SECOND, _THIRD)


def version(connection: sqlite3.Connection) -> int:
    """Return the version of a file; 0 if it is empty."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> None:
    """Bring a file up to date, as a whole or not at all. Another process may do the same at the same moment."""
    if version(connection) >= len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(version(connection), len(steps)):
            for statement in filter(str.strip, steps[number].split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
