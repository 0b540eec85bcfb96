"""Start a rank: `python -m breakrank_agent.start.boot` starts the agent and then the program, as its main module.

The variable BREAKRANK_BOOT holds a JSON object: `plan` (path), `rank`, `attempt`, `world`, `log` (path of the mapped
log), `stacks` (path where stacks are dumped on a signal), `words` (path of the FIFO for the stacks of a rank that
dies), `channel` (descriptor), `program` (`module:function`), `programs` (folder). Each path may be an open descriptor,
if the rank sees other files than the process that starts it. Without an agent (`agent` false) the program runs alone.
As a `guest` the agent waits for nobody longer than a few seconds: records that are not taken by then are dropped.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib
import json
import os
import platform
import random
import sys
import threading
from typing import Any, Callable, NoReturn, Optional, TextIO, Union

from breakrank_agent.agent.agent import Agent, make_current
from breakrank_agent.agent.channel import Channel
from breakrank_agent.hooks import install_all, install_in_child
from breakrank_agent.kernel.ptrace import let_anybody_trace
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.entry import STACKS_SIGNAL
from breakrank_agent.protocol.log import LogWriter

#: The most seconds that a rank which is only watched waits for a reader of its records, or for an answer.
GUEST_S = 10.0

#: Ends the process at once, even if a hook has replaced `os._exit`.
leave: Callable[[int], NoReturn] = os._exit

_stacks: Optional[TextIO] = None
_words = -1
#: fcntl(2); Python names it since 3.10.
_F_SETPIPE_SZ = 1031


def main() -> NoReturn:
    """Begin as `python -m breakrank_agent.start.boot`: run the program and end as Python would."""
    sys.exit(run_here(json.loads(os.environ["BREAKRANK_BOOT"])))


def run_here(spec: dict[str, Any]) -> int:
    """Start the agent and run the program that `spec` names; return the exit code that the rank is to have."""
    sys.path.insert(0, spec["programs"])
    agent = start_agent(spec) if spec.get("agent", True) else None
    return run_program(agent, spec["program"])


def begin(spec: dict[str, Any]) -> Agent:
    """Start the agent, and see the end of the main module."""
    agent = start_agent(spec)

    def over() -> None:
        """Finish at the end of the main module: before atexit, and before anything is taken apart."""
        error = getattr(sys, "last_value", None)
        # The process that waits for this one sees an exit by sys.exit, and its code.
        agent.finish("returned" if error is None else "raised", None if error is None else 1, error)

    # threading runs these first of all at the end of the main module; atexit would come after the user's own.
    threading._register_atexit(over)  # type: ignore[attr-defined]
    return agent


def start_agent(spec: dict[str, Any]) -> Agent:
    """Start the agent of this rank: the log, the line to the Conductor, the hooks."""
    global _stacks
    with open(spec["plan"], encoding="utf-8") as file:
        plan = Plan.loads(file.read(), str(spec["plan"]))
    guest = bool(spec.get("guest"))
    limit_s = GUEST_S if guest else None
    channel = Channel(spec["channel"], limit_s) if spec.get("channel") is not None else None
    log = LogWriter(spec["log"])
    log.patience_s = limit_s
    agent = Agent(plan, spec["rank"], spec["attempt"], log, channel)
    if isinstance(spec["plan"], str) and isinstance(spec["log"], str):
        agent.forks.plan_path, agent.forks.log_path = spec["plan"], spec["log"]
    _stacks = open(spec["stacks"], "w")  # noqa: SIM115 - it stays open for as long as the rank lives
    os.set_inheritable(_stacks.fileno(), False)
    _speak_when_dying(spec["words"], guest)
    faulthandler.register(STACKS_SIGNAL, file=_stacks, all_threads=True)
    let_anybody_trace()
    make_current(agent)
    if plan.pin:
        random.seed(plan.seed)
    agent.begin(world=spec["world"], python=platform.python_version())
    _watch_exit(agent)
    install_all(agent)
    agent.reach("start")
    return agent


def start_child(spec: dict[str, Any]) -> None:
    """Start the agent of a child that a rank has spawned, see `breakrank_agent.hooks.python.processes`."""
    with open(spec["plan"], encoding="utf-8") as file:
        plan = Plan.loads(file.read(), spec["plan"])
    agent = Agent(plan, spec["rank"], spec["attempt"], LogWriter(spec["log"]), None)
    agent.clock.step, agent.forks.plan_path = spec["step"], spec["plan"]
    agent.forks.be_child(spec["name"], spec["log"])
    install_in_child(agent)


def _speak_when_dying(where: Union[str, int], guest: bool) -> None:
    """Have faulthandler write the stacks into the FIFO `where`; in a child that is forked, where other stacks go.

    The pipe holds one packet: who dies waits in the kernel until the Conductor, which has seen the first, takes it. A
    `guest` makes nobody wait, nor end of another signal because nobody reads: it holds both ends.
    """
    global _words
    flags = os.O_NONBLOCK | os.O_CLOEXEC | (os.O_RDWR if guest else os.O_WRONLY)
    _words = where if isinstance(where, int) else os.open(where, flags)
    os.set_inheritable(_words, False)
    if not guest:
        # A kernel that refuses costs what the other threads were doing, and no more.
        with contextlib.suppress(OSError):
            fcntl.fcntl(_words, _F_SETPIPE_SZ, 4096)
            fcntl.fcntl(_words, fcntl.F_SETFL, os.O_DIRECT)
    faulthandler.enable(file=_words)
    os.register_at_fork(after_in_child=lambda: faulthandler.enable(file=_stacks or sys.stderr))


def run_program(agent: Optional[Agent], program: str) -> int:
    """Run `module:function` as the main program and return its exit code."""
    module, _, function = program.partition(":")
    how, code, error = "returned", 0, None
    try:
        getattr(importlib.import_module(module), function)()
    except SystemExit as leaving:
        how, code = "exit", _exit_code(leaving)
    except BaseException as raised:
        how, code, error = "raised", 1, raised
    if agent is not None:
        agent.finish(how, code, error)
    if error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
    return code


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    print(leaving.code, file=sys.stderr)
    return 1


def _watch_exit(agent: Agent) -> None:
    """Have `os._exit` write the agent's last events before it leaves."""

    def _exit(status: int) -> NoReturn:
        # A fault that leaves early passes unseen: to the rest of the world the rank is simply gone.
        if agent.here and not agent.busy:
            agent.finish("os._exit", status)
        leave(status)

    os._exit = _exit


if __name__ == "__main__":
    main()
