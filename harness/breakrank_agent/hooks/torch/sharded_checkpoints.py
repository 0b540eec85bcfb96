"""Checkpoints that every rank writes its shard of: `torch.distributed.checkpoint`, at once and in the background.

Such a checkpoint is a folder. A rank knows it by the bytes of the files that it has written there itself, so that a
folder in which the files of two saves lie side by side is none that anybody has saved.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks import after_import
from breakrank_agent.hooks.python.files import digest_file
from breakrank_agent.protocol.log import members

WAITS_FOR = "torch.distributed.checkpoint"

#: The files of one rank in the folder, as torch's writer names them.
_OWN = "__{rank}_*.distcp"


def install(agent: Agent) -> None:
    """Wrap what saves and what loads, and leave out the step by which torch makes an optimizer's state."""
    import torch.distributed.checkpoint as package
    from torch.distributed.checkpoint import state_dict_loader, state_dict_saver

    # Saves in the background that have not begun, by path: how many steps were made when they were asked for.
    later: dict[str, int] = {}
    # The background's thread looks for the first in the module.
    package.save = interpose(state_dict_saver, "save", around=_saving(agent, later))
    package.load = interpose(state_dict_loader, "load", around=_loading(agent))
    if hasattr(package, "async_save"):
        package.async_save = _save_later(agent, state_dict_saver, later)
    after_import("torch.distributed.checkpoint.state_dict", functools.partial(_pass_over_made_up_steps, agent))


def _saving(agent: Agent, later: dict[str, int]) -> Callable[..., AbstractContextManager[None]]:
    @contextlib.contextmanager
    def saving(*_: Any, **kwargs: Any) -> Iterator[None]:
        where, path = _where(agent, kwargs, "storage_writer")
        done = later.pop(path, None) if threading.get_ident() != agent.main else None
        if done is None:
            done = agent.clock.done
            agent.reach("save", says=members({"path": path}))
        try:
            with _larger(agent):
                yield
        except BaseException as error:
            agent.raised("save", error, path=path)
            raise
        agent.payload("save", path=path, done=done, **_digest(agent, where))

    return saving


def _save_later(agent: Agent, module: Any, later: dict[str, int]) -> Any:
    """Wrap a save in the background, which holds the steps that were made when it was asked for."""

    def begin(*_: Any, **kwargs: Any) -> tuple[str, str]:
        where, path = _where(agent, kwargs, "storage_writer")
        agent.reach("save", says=members({"path": path}))
        later[path] = agent.clock.done
        return where, path

    def begun(place: tuple[str, str], returned: Any) -> None:
        where, path = place

        def follow(future: Any) -> None:
            # It is still there where another process has saved.
            done = later.pop(path, None)
            if done is not None and not future.cancelled() and future.exception() is None:
                agent.payload("save", path=path, done=done, **_digest(agent, where))

        getattr(returned, "upload_completion", returned).add_done_callback(follow)

    def fail(place: tuple[str, str], error: BaseException) -> None:
        later.pop(place[1], None)
        agent.raised("save", error, path=place[1])

    return interpose(module, "async_save", begin, begun, fail)


def _loading(agent: Agent) -> Callable[..., AbstractContextManager[None]]:
    @contextlib.contextmanager
    def loading(*_: Any, **kwargs: Any) -> Iterator[None]:
        where, path = _where(agent, kwargs, "storage_reader")
        agent.reach("restore", says=members({"path": path}))
        digest = _digest(agent, where)
        with _larger(agent):
            yield
        agent.payload("restore", path=path, **digest)

    return loading


def _where(agent: Agent, kwargs: Any, storage: str) -> tuple[str, str]:
    """Return the folder of a checkpoint, as it was named or of the writer or reader, and as the record has it."""
    named = kwargs.get("checkpoint_id")
    if named is None:
        named = getattr(kwargs.get(storage), "path", None)
    where = os.fspath(named) if isinstance(named, (str, os.PathLike)) else ""
    return where, agent.relative(where) if where else "(memory)"


@contextlib.contextmanager
def _larger(agent: Agent) -> Iterator[None]:
    """Take what `torch.save` and `torch.load` do meanwhile for parts of this: in this thread, or in one of its own."""
    ident = threading.get_ident()
    agent.services.sharded.threads.add(ident)
    try:
        yield
    finally:
        agent.services.sharded.threads.discard(ident)


def _digest(agent: Agent, where: str) -> dict[str, Any]:
    """Return digest and size of what this rank has written there, each None where it has no file, or cannot read it."""
    pattern = os.path.join(glob.escape(where), _OWN.format(rank=agent.rank))
    files = sorted(glob.glob(pattern)) if where else []
    with agent.quietly():
        return digest_file(*files) if files else {"file": None, "size": None}


def _pass_over_made_up_steps(agent: Agent) -> None:
    """Mark the step without gradients by which torch makes an optimizer's state: it is no step of the training."""
    from torch.distributed.checkpoint import state_dict as module

    @contextlib.contextmanager
    def making(*_: Any, **__: Any) -> Iterator[None]:
        agent.services.sharded.makes_state = True
        try:
            yield
        finally:
            agent.services.sharded.makes_state = False

    if hasattr(module, "_init_optim_state"):
        interpose(module, "_init_optim_state", around=making)
