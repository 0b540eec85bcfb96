"""Sessions and results made up, for tests of the memory."""

from __future__ import annotations

from breakrank.memory.entries import NIGHTLY, Entry, Session
from breakrank.memory.reading import Memory, read
from breakrank.memory.store import NAME, Store


def entry(name="racy::one", outcome="SURVIVED", **values):
    """Return the result of a case, by pytest's id."""
    scenario, _, case = name.partition("::")
    known = {"family": "sync", "mechanism": "kill, process", "plan": "p", "code": "c", "digest": "d", "seconds": 1.0}
    return Entry(**{**known, "scenario": scenario, "case": case, "outcome": outcome, "as_recorded": True, **values})


def session(day=1, **values):
    """Return a session of a day in November that has ended."""
    moment = f"2026-11-{day:02d}T02:00:00Z"
    return Session(**{"began": moment, "ended": moment, "exit": 0, "torch": "2.13", **values})


def night(day=1, **values):
    """Return a night that has ended."""
    return session(day, kind=NIGHTLY, **values)


def remembered(folder, *sessions) -> Memory:
    """Write sessions, each with its results, into the history of a folder, and return what it holds."""
    with Store(folder / NAME) as store:
        for one, entries in sessions:
            store.add(store.begin(one), entries)
    return read(folder)
