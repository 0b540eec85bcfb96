"""Join a job that any launcher may have started: find out whether this process is a rank, and call home.

A launcher is left alone. A process for which a rank is written down becomes one when it imports a framework, so that
what merely prepares or cleans up stays none. Any other becomes one when it calls `init_process_group`, as the processes
of `torch.multiprocessing.spawn` do; whoever never does is none. It calls the address in BREAKRANK_HOME, says the secret
(`SECRET_BYTES` of it) and who it is, and gets the boot specification; the same line then is its channel. The variables
are taken out of the environment, so that what a rank starts is left alone.

The address is listed for every user of the machine, and free for anybody when whoever had it is gone: only this user,
and root, is believed.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import struct
import sys
import time
from typing import Any, Optional

from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks import after_import
from breakrank_agent.protocol.checked import Unfit, check, is_text, parse, whole
from breakrank_agent.protocol.entry import GUEST, HOME, SECRET
from breakrank_agent.protocol.frameworks import all_frameworks
from breakrank_agent.protocol.identity import find_identity, is_launcher, own_command

#: The most seconds that a rank of such a job waits until it is taken in.
_TAKEN_IN_S = 60.0
_MOST_ANSWER = 1 << 16

_home = _secret = ""
_guest = False
_agent: Any = None


def listen() -> None:
    """Begin, in `sitecustomize`: wait for what makes this process a rank."""
    global _home, _secret, _guest
    if is_launcher(own_command()):
        return
    _home, _secret, _guest = os.environ[HOME], os.environ.get(SECRET, ""), GUEST in os.environ
    who = find_identity(os.environ)
    if who is not None and who.world is not None:
        for name in all_frameworks():
            after_import(name, functools.partial(call, who.rank, who.world))
    else:
        after_import("torch.distributed.distributed_c10d", _watch_group)
        after_import("multiprocessing.process", _watch_process)


def call(rank: int, world: int) -> None:
    """Call home as this rank and start the agent, once; where nobody answers, all goes on as without us."""
    global _home, _agent
    if not _home:
        return
    address, _home = _home, ""
    for name in (HOME, SECRET, GUEST):
        os.environ.pop(name, None)
    line = socket.socket(socket.AF_UNIX)
    try:
        spec = _converse(line, address, rank, world)
    except (OSError, Unfit):
        line.close()
        return
    from breakrank_agent.start.boot import begin

    try:
        _agent = begin({**spec, "channel": os.dup(line.fileno()), "guest": _guest})
        line.close()
    except Exception as error:
        # The program knows nothing of a log, say, that cannot be opened.
        _say_failed(line, error)


def _converse(line: socket.socket, address: str, rank: int, world: int) -> dict[str, Any]:
    """Say who this is and return the answer. Raises `OSError` or `Unfit` where there is none to be believed."""
    line.settimeout(_TAKEN_IN_S if _guest else None)
    line.connect("\0" + address)
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user not in (0, os.geteuid()):
        raise Unfit("somebody else is at home")
    line.sendall(_secret.encode() + json.dumps(_hello(rank, world)).encode() + b"\n")
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


def _watch_group() -> None:
    """Become a rank with `init_process_group`: before it where its rank is known by then, else after it."""
    module: Any = sys.modules["torch.distributed.distributed_c10d"]
    original = module.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        # The hooks that come with the call wrap what they find here, and see this start, too.
        if module.init_process_group is init_process_group:
            module.init_process_group = original
        known = _said(args, kwargs)
        if known is not None:
            call(*known)
        try:
            made = module.init_process_group(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        call(module.get_rank(), module.get_world_size())
        return made

    module.init_process_group = init_process_group


def _said(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Optional[tuple[int, int]]:
    """Return the rank and world size that a call of `init_process_group` names, or that the environment does."""
    # (backend, init_method, timeout, world_size, rank, …)
    world = kwargs.get("world_size", args[3] if len(args) > 3 else -1)
    rank = kwargs.get("rank", args[4] if len(args) > 4 else -1)
    if rank >= 0 and world > 0:
        return rank, world
    who = find_identity(os.environ)
    return (who.rank, who.world) if who is not None and who.world is not None else None


def _watch_process() -> None:
    """See how the function of a child process ended: such a rank has no main module of its own."""
    import multiprocessing.process as module

    interpose(module.BaseProcess, "run", failed=lambda _, error: _finish(error))


def _finish(error: BaseException) -> None:
    """Report what ended the rank: an exit in answer to an exception, as torch makes it, is that exception's."""
    if _agent is None:
        return
    code: Any = error.code if isinstance(error, SystemExit) else 1
    if not isinstance(error, SystemExit):
        _agent.finish("raised", 1, error)
    elif isinstance(error.__context__, Exception) and code:
        _agent.finish("exit", 1, error.__context__)
    else:
        _agent.finish("exit", code if isinstance(code, int) else int(code is not None))
