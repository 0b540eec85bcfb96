"""`breakrank nightly`: the catalogue as a session that can be cut short and gone on with, held against the last one."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.files.bounded import plain
from breakrank.files.private import make_runs
from breakrank.host.supervisor import PR_SET_PDEATHSIG
from breakrank.memory.entries import NIGHTLY, Session
from breakrank.memory.reading import Memory, read
from breakrank.memory.spans import now, seconds_of
from breakrank.memory.store import NAME, Store
from breakrank.report.night import Night, night_of
from breakrank.timeline.site import write_report

#: The exit codes of a night that was cut short, and of an error of ours.
_INTERRUPTED, _OURS = 130, 3
#: pytest's exit codes: tests failed or none did (5: none was left), it was interrupted, and the usage was wrong.
_RAN, _STOPPED, _USAGE = (0, 1, 5), 2, 4
#: A changed case is tried so many times more.
_RETRIES = 2
#: The options that a night is begun with, and that are taken from the history when it is gone on with.
_WORDS = tuple(f"--scenario{word}=" for word in ("", "-retries", "-image", "-budget"))
#: Seconds to wait for the pytest of a night that was killed a moment ago.
_WAIT_S = 60.0
_LOCK = "nightly.lock"


@dataclass(frozen=True)
class Wishes:
    """The settings of a night, as they are typed; `more` are further words for pytest."""

    scenario: Sequence[str]
    image: str
    budget: str
    resume: bool
    runs: Path
    output: Path | None
    more: Sequence[str]


def nightly(wishes: Wishes) -> int:
    """Run a night, or go on with the last one, and write what came of it.

    Return 0, 1 if a case is worse than in the night before, 2 if too little was tested, 3 for an error of our own.
    Raises `BreakrankError`.
    """
    try:
        return _night(wishes)
    except BreakrankError:
        raise
    except Exception:
        # Python's own exit code, 1, would say that a case got worse.
        traceback.print_exc()
        return _OURS


def _night(wishes: Wishes) -> int:
    runs = wishes.runs.absolute()
    try:
        make_runs(runs)
    except OSError as error:
        raise BreakrankError(f"cannot use {runs} for the runs: {error.strerror}; name another by --runs") from None
    with _alone(runs) as lock:
        session = _unfinished(runs) if wishes.resume else _begin(runs, wishes)
        status = _pytest(session, wishes.more, runs, lock)
        if status == _USAGE:
            with Store(runs / NAME) as store:
                store.forget(session.id)
            return _USAGE
        if status not in _RAN:
            # pytest may have died in the middle of a line.
            print(f"\nbreakrank: night {session.id} was cut short; go on with it by: breakrank nightly --resume")
            return _INTERRUPTED if status == _STOPPED else _OURS
        return _finish(runs, session.id, (wishes.output or runs / "nightly").absolute())


def _begin(runs: Path, wishes: Wishes) -> Session:
    """Write a new night into the history, with the words that pytest is called with."""
    words = [f"--scenario={name}" for name in wishes.scenario] + [f"--scenario-retries={_RETRIES}"]
    if wishes.image:
        words.append(f"--scenario-image={wishes.image}")
    if wishes.budget:
        seconds_of(wishes.budget, "--budget")
        words.append(f"--scenario-budget={wishes.budget}")
    with Store(runs / NAME) as store:
        number = store.begin(Session(now(), NIGHTLY, image=wishes.image, argv=tuple(words)))
        return next(session for session in store.sessions() if session.id == number)


def _unfinished(runs: Path) -> Session:
    """Return the last night, if it has not ended. Raises `BreakrankError`."""
    nights: list[Session] = []
    if (runs / NAME).exists():
        with Store(runs / NAME) as store:
            nights = [session for session in store.sessions() if session.kind == NIGHTLY]
    if not nights or nights[-1].exit is not None:
        raise BreakrankError(f"no night in {runs} was cut short; leave out --resume")
    return nights[-1]


def _pytest(session: Session, more: Sequence[str], runs: Path, lock: int) -> int:
    """Run the cases that the night does not have yet; return pytest's exit code, negative for a signal.

    Raises `BreakrankError` for a night that we did not begin.
    """
    for word in session.argv:
        # A history may be a stranger's: other options of pytest run any code.
        if not word.startswith(_WORDS):
            raise BreakrankError(f"night {session.id} was begun with {plain(word)}, which no night is; begin a new one")
    command = [sys.executable, "-m", "pytest", "-p", "breakrank.plugin", "-o", f"scenario_runs={runs}"]
    command += [*session.argv, *more, f"--scenario-resume={session.id}"]
    parent = os.getpid()
    libc = ctypes.CDLL(None)

    def die_with_us() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    # The child holds the lock as well: a night is over when its pytest is.
    with subprocess.Popen(command, preexec_fn=die_with_us, pass_fds=[lock] if lock >= 0 else []) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                # It got the signal, too, and ends by itself.
                continue


def _finish(runs: Path, number: int, output: Path) -> int:
    """Judge a night that has run, write what came of it, and return the exit code."""
    memory = read(runs)
    night = night_of(memory, number)
    missing = night.session.selected - len(night.entries)
    if missing > 0:
        print(f"breakrank: the history lacks {missing} results of night {number}; go on by: breakrank nightly --resume")
        return _OURS
    _write(night, memory, runs, output)
    with Store(runs / NAME) as store:
        store.update(number, ended=now(), exit=night.status)
    print(f"breakrank: {night.headline}")
    return night.status


def _write(night: Night, memory: Memory, runs: Path, output: Path) -> None:
    """Write the summary, and the site if the package for it is there. Raises `BreakrankError`."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "summary.md").write_text(night.markdown(), encoding="utf-8", errors="replace")
        (output / "summary.json").write_text(json.dumps(night.to_json(), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BreakrankError(f"the summary cannot be written to {output}: {error.strerror}") from None
    try:
        print(f"breakrank: report: {write_report(memory, runs, output)}")
    except BreakrankError as error:
        print(f"breakrank: no page was written: {error}")


@contextlib.contextmanager
def _alone(runs: Path) -> Iterator[int]:
    """Hold the lock of the nights in a folder; give its descriptor. Raises `BreakrankError` if another night runs."""
    descriptor = os.open(runs / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        until, said = time.monotonic() + _WAIT_S, False
        while not _locked(descriptor):
            if not said:
                print(f"breakrank: another night runs in {runs}; it is waited for, {_WAIT_S:.0f} s at most", flush=True)
                said = True
            if time.monotonic() > until:
                raise BreakrankError(
                    f"another night runs in {runs}; wait for its end, or name another folder by --runs"
                )
            time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some file systems have no such locks.
        return True
    return True
