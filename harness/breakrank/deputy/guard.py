"""The guard: the first process of ours on a node. It starts the deputy, and leaves nothing behind, however that ends.

If one of the two is killed, the other ends everything that carries the session's id, and removes the folder. The
session is the guard's own: whoever looks for what dead sessions left on this machine sees that it lives.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from breakrank.deputy.deputy import Deputy
from breakrank.deputy.leaving import Leaving
from breakrank.host.session_name import VARIABLE
from breakrank.host.supervisor import PR_SET_CHILD_SUBREAPER, ancestors
from breakrank.host.wire import MARKER, MOST_LINE, Wire, WireCut, call
from breakrank_agent.protocol.entry import HOME
from breakrank_agent.protocol.identity import tasks_here

#: Seconds within which a connection to the Conductor must stand, it must answer, and what was killed must be gone.
_CALL_S, _ANSWERS_S, _ENDS_S = 5.0, 30.0, 10.0
#: Signals that a cluster may send to all processes of a step: they are meant for its tasks.
_OF_TASKS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
#: The exit code of a deputy that has told all, and that the end of its step has let go.
_WENT = 3
#: The most addresses that are named if none of them answers.
_MOST_NAMED = 3


def main(config: dict[str, Any], session: str, where: str) -> int:
    """Serve a Conductor until it is gone; return the exit code. This code lies in the folder `where`."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in _OF_TASKS if config.get("step") else ():
        # A handler and not SIG_IGN: what is started from here has the defaults.
        signal.signal(number, lambda *_: None)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder, went = Path(where), False
    try:
        leaving = _leaving(config)
        code = _guarded(lambda: _serve(config, session, folder, leaving))
        went = code == _WENT
        return 0 if went else code
    finally:
        if went:
            # Other parts of the job go on, with the address that its ranks call.
            shutil.rmtree(folder, ignore_errors=True)
        else:
            _leave(config, session, folder)


def _leaving(config: dict[str, Any]) -> Leaving | None:
    """Return what hears of the end of our step, None if we belong to none."""
    if not config.get("step"):
        return None
    try:
        return Leaving(config["home"], tasks_here(os.environ) or 1)
    except OSError:
        return None


def _leave(config: dict[str, Any], session: str, folder: Path, but: int = 0) -> None:
    """Leave nothing behind; the ranks of a job of which we are a `guest` go on."""
    if not config.get("guest"):
        end_all(session, config["home"], but)
    shutil.rmtree(folder, ignore_errors=True)


def _guarded(serve: Callable[[], int]) -> int:
    """Serve in a child, and say how it ended if it did not end well."""
    deputy = os.fork()
    if deputy == 0:
        code = 1
        try:
            code = serve()
        except WireCut as error:
            print(f"breakrank: {error}", file=sys.stderr, flush=True)
        except BaseException as error:
            print(f"breakrank: the deputy failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    while True:
        # All that the deputy leaves behind becomes a child of this process.
        pid, status = os.wait()
        if pid == deputy:
            break
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        name = signal.Signals(-code).name
        print(f"breakrank: its deputy was ended by {name}; was it killed?", file=sys.stderr, flush=True)
        return 1
    return code


def _serve(config: dict[str, Any], session: str, folder: Path, leaving: Leaving | None) -> int:
    """Serve, and return the exit code."""
    os.environ[VARIABLE] = session
    guard = os.pidfd_open(os.getppid())
    wire, ends_with, over_tcp = _reach(config)
    try:
        Deputy(wire, config, session, folder, [guard, *ends_with], over_tcp, leaving).serve()
    finally:
        if select.select([guard], [], [], 0)[0]:
            # The guard is gone: all that it would do is done here.
            print("breakrank: the guard of its deputy was killed", file=sys.stderr, flush=True)
            _leave(config, session, folder, os.getpid())
    if leaving is None or not leaving.due:
        return 0
    if not config.get("guest"):
        end_step(config["home"], leaving.callers)
    return _WENT


def _reach(config: dict[str, Any]) -> tuple[Wire, list[int], bool]:
    """Return the wire, what else shows that the Conductor is gone, and whether the wire is TCP.

    Over TCP, the pipe that started us shows it, too.
    """
    piped, doors = config.get("piped", False), list(_doors(config))
    for host, port in doors:
        wire = call(host, port, config["key"], _CALL_S, _ANSWERS_S)
        if wire is not None:
            return wire, [0] if piped else [], True
    if not piped:
        tried = ", ".join(f"{host}:{port}" for host, port in doors[:_MOST_NAMED])
        raise WireCut(f"the machine that runs pytest cannot be reached by TCP ({tried}): let it through there")
    # All that is printed from here on would be taken for words of the wire.
    writer = os.dup(1)
    os.dup2(2, 1)
    os.write(writer, b"\n" + MARKER)
    wire = Wire(os.dup(0), writer)
    wire.most = MOST_LINE
    return wire, [], False


def _doors(config: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the addresses at which the Conductor may listen: those it names, and where a login has come from."""
    came_from = os.environ.get("SSH_CONNECTION", "").split()[:1]
    for host in (*came_from, *config.get("hosts", ())):
        if config.get("port"):
            yield host, config["port"]


def end_all(session: str, home: str, but: int = 0) -> None:
    """Kill whatever of this user carries the session's id, or the address that its ranks call, until it is gone."""
    marks = (f"{VARIABLE}={session}".encode(), f"{HOME}={home}".encode())
    until = time.monotonic() + _ENDS_S
    while time.monotonic() < until:
        left = [pid for pid in _with(marks) if pid not in (os.getpid(), os.getppid(), but)]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)


def end_step(home: str, callers: set[int]) -> None:
    """Kill what the ranks of our step have left running, but not the epilogs that have called."""
    step = tuple(f"{name}={os.environ.get(name, '')}".encode() for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    spared = {os.getpid(), os.getppid()}
    for pid in callers:
        spared |= {pid, *ancestors(pid)}
    for pid in _with((f"{HOME}={home}".encode(),)):
        with contextlib.suppress(OSError):
            if pid not in spared and set(step) <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")):
                os.kill(pid, signal.SIGKILL)


def _with(marks: tuple[bytes, ...]) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid != os.geteuid():
                continue
            words = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            if any(mark in words for mark in marks):
                yield int(name)
