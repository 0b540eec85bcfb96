"""How the agent begins in a process that any launcher may have started: it finds out whether this is a rank, and calls.

A launcher is left alone. A process for which a rank is written down becomes one when it imports a framework, so that
what merely prepares or cleans up stays none. Any other becomes one when it calls `init_process_group`, as the processes
of `torch.multiprocessing.spawn` do; whoever never does is none. It calls the address in BREAKRANK_HOME, says who it is,
and gets the boot specification; the same line then is its channel. Both variables are taken out of the environment, so
that what a rank starts is left alone.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
from typing import Any, Optional

from breakrank_agent.frames import hide
from breakrank_agent.hooks import after_import
from breakrank_agent.identity import find_identity, is_launcher, own_command

HOME, SECRET = "BREAKRANK_HOME", "BREAKRANK_SECRET"
#: What a rank of some framework imports.
FRAMEWORKS = ("torch", "tensorflow")

_home = _secret = ""
_agent: Any = None


def listen() -> None:
    """Begin, in `sitecustomize`: wait for what makes this process a rank."""
    global _home, _secret
    if is_launcher(own_command()):
        return
    _home, _secret = os.environ[HOME], os.environ.get(SECRET, "")
    who = find_identity(os.environ)
    if who is not None and who.world is not None:
        for name in FRAMEWORKS:
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
    for name in (HOME, SECRET):
        os.environ.pop(name, None)
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect("\0" + address)
        line.sendall(json.dumps(_hello(rank, world)).encode() + b"\n")
        answer = line.makefile("rb").readline()
    except OSError:
        answer = b""
    if not answer:
        line.close()
        return
    from breakrank_agent.enter import begin

    _agent = begin({**json.loads(answer), "channel": line.detach()})


def _hello(rank: int, world: int) -> dict[str, Any]:
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    port = os.environ.get("MASTER_PORT", "")
    return {
        "secret": _secret,
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

    original = module.BaseProcess.run

    @functools.wraps(original)
    def run(self: Any) -> None:
        try:
            original(self)
        except BaseException as error:
            hide(error)
            _finish(error)
            raise

    module.BaseProcess.run = run  # type: ignore[method-assign]


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
