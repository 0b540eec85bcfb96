"""A supervisor that is killed or stands still costs at most the current run; the next run has another supervisor."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from support.plans import PROGRAMS, plan_of

from breakrank.errors import BreakrankError
from breakrank.host import session as sessions
from breakrank.host.session import Session
from breakrank.host.session_name import VARIABLE
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome

LIMIT_S = 60.0


def carrying(session: Session) -> list[int]:
    """Return the running processes that carry a session's id."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(VARIABLE) == session.id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            pass
    return found


def start(session: Session, *command: str) -> int:
    """Start a program below the supervisor."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        return session.spawn(list(command), {"PATH": os.environ["PATH"]}, Path("/"), [null] * 3)
    finally:
        os.close(null)


@pytest.fixture
def session():
    made = Session()
    yield made
    made.close()
    assert carrying(made) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_supervisor_that_does_not_work_is_replaced_and_nothing_of_it_is_left(session, number, monkeypatch):
    monkeypatch.setattr(sessions, "ANSWER_S", 1.0)
    session.own([])
    # It leaves its parent's group, as a daemon does: the end of the supervisor is not its end.
    start(session, "sh", "-c", "setsid sleep 1000 & sleep 1000")
    until = time.monotonic() + LIMIT_S
    while len(carrying(session)) < 4:
        assert time.monotonic() < until
    before = session.supervisor_pid
    os.kill(before, number)
    with pytest.raises(BreakrankError, match="the supervisor process is gone"):
        session.signal(start(session, "sleep", "1000"), signal.SIGTERM)
    session.renew()
    assert session.supervisor_pid != before
    assert carrying(session) == [session.supervisor_pid]
    assert session.signal(start(session, "sleep", "1000"), signal.SIGKILL)


def test_a_supervisor_that_works_is_kept(session):
    before, child = session.supervisor_pid, start(session, "sleep", "1000")
    session.renew()
    assert session.supervisor_pid == before and session.signal(child, signal.SIGKILL)


def test_between_two_runs_it_costs_none(tmp_path):
    with Bench(tmp_path, cold=True) as bench:
        os.kill(bench.supervisor_pid, signal.SIGKILL)
        result = bench.run(Request(plan_of("plain:steps"), programs=PROGRAMS))
        assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_what_waits_for_the_supervisor_has_a_limit_at_the_end_too(number):
    session = Session()
    start(session, "sleep", "1000")
    os.kill(session.supervisor_pid, number)
    session.close()
    assert carrying(session) == []


def test_a_supervisor_killed_in_a_run_costs_that_run_and_the_next_has_another(tmp_path):
    with Bench(tmp_path, cold=True) as bench:
        struck = []

        def strike(progress):
            if not struck and any(step >= 1 for step, _ in progress.ranks.values()):
                struck.append(bench.supervisor_pid)
                os.kill(bench.supervisor_pid, signal.SIGKILL)

        cut = bench.run(Request(plan_of("plain:steps", steps=1_000_000), programs=PROGRAMS, progress=strike))
        assert struck
        assert cut.verdict.outcome is Outcome.VOID and cut.verdict.void[0].startswith("the supervisor process is gone")
        result = bench.run(Request(plan_of("plain:steps"), programs=PROGRAMS))
        assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
