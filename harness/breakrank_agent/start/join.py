"""Join a job that any launcher may have started: find out whether this process is a rank, and call home.

A launcher is left alone. A process for which a rank is written down becomes one when it imports a framework, so that
what merely prepares or cleans up stays none. Any other becomes one when it joins a group of ranks, as the processes of
`torch.multiprocessing.spawn` do (`breakrank_agent.start.joining`); whoever never does is none. It calls the address in
BREAKRANK_HOME, says the secret (`SECRET_BYTES` of it) and who it is, and gets the boot specification; the same line
then is its channel. The variables are taken out of the environment, so that what a rank starts is left alone.

A process that trains and is no rank says so, and goes on. So does one below a rank of ours that joins a group under
another number: its script starts its ranks itself, and is to be started once, without the numbers that we gave it.

The address is listed for every user of the machine, and free for anybody when whoever had it is gone: only this user,
and root, is believed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import struct
import time
from typing import Any, Optional

from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks import after_import
from breakrank_agent.protocol.checked import Unfit, check, is_text, parse, whole
from breakrank_agent.protocol.entry import BELOW, GUEST, HOME, SECRET
from breakrank_agent.protocol.frameworks import all_frameworks
from breakrank_agent.protocol.identity import is_launcher, own_command
from breakrank_agent.start.joining import Place, place_in, watch_joining, watch_training
from breakrank_agent.start.ray_job import keep_results

#: The most seconds that a rank of such a job waits until it is taken in.
_TAKEN_IN_S = 60.0
#: The most seconds that one which is no rank takes to say so.
_HEARD_IN_S = 5.0
_MOST_ANSWER = 1 << 16

_home = _secret = _below = ""
#: The processes that have said what they do without being ranks, and whether it was under a number of their own.
_said: set[tuple[int, bool]] = set()
_guest = False
_agent: Any = None


def listen() -> None:
    """Begin, in `sitecustomize`: wait for what makes this process a rank."""
    global _home, _secret, _guest, _below
    if is_launcher(own_command()):
        return
    _home, _secret, _guest = os.environ[HOME], os.environ.get(SECRET, ""), GUEST in os.environ
    _below = os.environ.get(BELOW, "")
    keep_results()
    who = None if _below else place_in(os.environ)
    after_import("multiprocessing.process", _watch_process)
    if who is not None:
        for name in all_frameworks():
            after_import(name, functools.partial(call, *who))
    else:
        watch_joining(_join_below if _below else lambda _, place: call(*place))
        watch_training(_say_trains)


def listen_below(rank: int, world: int) -> None:
    """Begin, in a rank of a script that we have started: watch what it starts, until it joins a group itself."""
    global _home, _secret, _below
    _home, _secret, _below = os.environ[HOME], os.environ.get(SECRET, ""), f"{rank}/{world}"
    os.environ[BELOW] = _below
    rank_pid = os.getpid()

    def joins(says: str, place: Place) -> None:
        if os.getpid() != rank_pid:
            _join_below(says, place)
        elif _home:
            _forget()

    watch_joining(joins)
    # A rank of ours pays nothing for it: an optimizer is watched in what it forks.
    os.register_at_fork(after_in_child=lambda: watch_training(_say_trains) if _home else None)


def _forget() -> str:
    """Take out what leads home, and return the address."""
    global _home
    address, _home = _home, ""
    for name in (HOME, SECRET, GUEST, BELOW):
        os.environ.pop(name, None)
    return address


def come_home(rank: int, world: int) -> Optional[tuple[dict[str, Any], socket.socket]]:
    """Call home as this rank, once; return the boot specification and the line. None: nobody answers."""
    if not _home:
        return None
    address = _forget()
    line = socket.socket(socket.AF_UNIX)
    try:
        return _converse(line, address, rank, world), line
    except (OSError, Unfit):
        line.close()
        return None


def call(rank: int, world: int) -> None:
    """Call home as this rank and start the agent, once; where nobody answers, all goes on as without us."""
    global _agent
    come = come_home(rank, world)
    if come is None:
        return
    spec, line = come
    from breakrank_agent.start.boot import begin

    try:
        _agent = begin({**spec, "channel": os.dup(line.fileno()), "guest": _guest})
        line.close()
    except Exception as error:
        # The program knows nothing of a log, say, that cannot be opened.
        _say_failed(line, error)


def _converse(line: socket.socket, address: str, rank: int, world: int) -> dict[str, Any]:
    """Say who this is and return the answer. Raises `OSError` or `Unfit` where there is none to be believed."""
    _say(line, address, _hello(rank, world), _TAKEN_IN_S if _guest else None)
    until = time.monotonic() + _TAKEN_IN_S
    heard = b""
    while not heard.endswith(b"\n"):
        data = line.recv(4096)
        heard += data
        if not data or len(heard) > _MOST_ANSWER or (_guest and time.monotonic() > until):
            raise Unfit("there is no answer")
    spec = parse(heard, _MOST_ANSWER)
    check(spec, {"plan": is_text, "log": is_text, "stacks": is_text, "words": is_text, "rank": whole()})
    check(spec, {"attempt": whole(), "world": whole()})
    line.settimeout(None)
    return spec


def _say(line: socket.socket, address: str, hello: dict[str, Any], limit_s: Optional[float]) -> None:
    """Call the address, if somebody to be believed is there. Raises `OSError` or `Unfit`."""
    line.settimeout(limit_s)
    line.connect("\0" + address)
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user not in (0, os.geteuid()):
        raise Unfit("somebody else is at home")
    line.sendall(_secret.encode() + json.dumps(hello).encode() + b"\n")


def _join_below(says: str, place: Place) -> None:
    """Say that a process below a rank of ours joins a group. Under a number of its own it then waits.

    It is its own if it is another than the rank's, or if the rank has started a process for each of the group's ranks:
    one of these has the rank's number by chance, and is not to leave its address at a meeting point of the script's.
    """
    own = f"{place[0]}/{place[1]}" != _below or 1 < place[1] <= _count_siblings()
    _say_unranked({"did": says, "place": list(place) if own else None}, waits=own)


def _count_siblings() -> int:
    """Count the processes that the parent of this one has started by multiprocessing and that live, this one included.

    They are started by a command of that module, or forked, so that they have the parent's own command line.
    """
    parent = f"/proc/{os.getppid()}"
    commands = []
    with contextlib.suppress(OSError):
        own = _text(f"{parent}/cmdline")
        for thread in os.listdir(f"{parent}/task"):
            children = _text(f"{parent}/task/{thread}/children").split()
            commands += [_text(f"/proc/{child}/cmdline") for child in children if os.path.exists(f"/proc/{child}")]
        return sum(command == own or "--multiprocessing-fork" in command for command in commands)
    return 0


def _text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def _say_trains(optimizer: str) -> None:
    """Say that this process trains, and is no rank."""
    _say_unranked({"did": optimizer, "place": None})


def _say_unranked(what: dict[str, Any], waits: bool = False) -> None:
    """Say, once of each process, what it does without being a rank."""
    saying = os.getpid(), waits
    if not _home or saying in _said:
        return
    _said.add(saying)
    rank = _below.partition("/")[0]
    with contextlib.suppress(OSError, Unfit), socket.socket(socket.AF_UNIX) as line:
        _say(line, _home, {**what, "below": int(rank) if rank else None}, _HEARD_IN_S)
        if waits:
            line.settimeout(_TAKEN_IN_S)
            line.recv(1)


def _say_failed(line: socket.socket, error: Exception) -> None:
    try:
        why = f"{type(error).__name__}: {error}"[:1000]
        line.sendall(json.dumps({"failed": why}).encode() + b"\n")
    except OSError:
        return
    finally:
        line.close()


def _hello(rank: int, world: int) -> dict[str, Any]:
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    port = os.environ.get("MASTER_PORT", "")
    return {
        "rank": rank,
        "world": world,
        "attempt": int(restarts) if restarts.isdecimal() else None,
        "store": int(port) if port.isdecimal() else 0,
    }


def _watch_process() -> None:
    """See how the function of a child process ended: such a rank has no main module of its own."""
    import multiprocessing.process as module

    interpose(module.BaseProcess, "run", failed=lambda _, error: _finish(error))


def _finish(error: BaseException) -> None:
    """Report what ended the rank: an exit in answer to an exception, as torch makes it, is that exception's."""
    if _agent is None or _agent.recorder.child:
        return
    code: Any = error.code if isinstance(error, SystemExit) else 1
    if not isinstance(error, SystemExit):
        _agent.finish("raised", 1, error)
    elif isinstance(error.__context__, Exception) and code:
        _agent.finish("exit", 1, error.__context__)
    else:
        _agent.finish("exit", code if isinstance(code, int) else int(code is not None))
