"""Dispatch modes of ours beside torch's compiler: each keeps out of the other's way."""

from __future__ import annotations

from typing import Any, Callable

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose


def enter_mode(agent: Agent, mode: Any, what: str) -> None:
    """Enter a mode in the main thread, and leave it where a program wants a graph compiled as a whole.

    Beside a mode the compiler compiles nothing, which is then an error. `what` is no longer on record.
    """
    import torch
    from torch.utils import _python_dispatch as dispatch

    mode.__enter__()
    left: list[Any] = []

    def leave_main() -> None:
        if dispatch._get_current_dispatch_mode() is mode:
            mode.__exit__(None, None, None)
            left.append(mode)

    def take_main() -> None:
        if left:
            left.pop().__enter__()

    # Modes lie one upon the other, each of its thread: the last that was entered is left first.
    agent.on.main_leave.insert(0, leave_main)
    agent.on.main_take.append(take_main)

    def leave(*_: Any, fullgraph: bool = False, **__: Any) -> None:
        if fullgraph and dispatch._get_current_dispatch_mode() is mode:
            mode.__exit__(None, None, None)
            text = f"{what} not on record any more: a graph is compiled as a whole"
            agent.record("note", text=text, limits=True)

    interpose(torch, "compile", leave)


def uncompiled(run: Callable[..., Any]) -> Callable[..., Any]:
    """Keep torch's compiler, which beside a mode runs nothing but what it had compiled before, out of what we call."""
    from torch._C._dynamo.eval_frame import set_eval_frame

    def running(func: Any, args: Any, kwargs: Any) -> Any:
        compiler = set_eval_frame(None)
        if compiler is None:
            return run(func, args, kwargs)
        try:
            return run(func, args, kwargs)
        finally:
            set_eval_frame(compiler)

    return running
