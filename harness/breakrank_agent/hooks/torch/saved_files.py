"""Files that `torch.save` writes and `torch.load` reads: a save, or a restore, with the digest of what lies on disk."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks.python.files import digest_file
from breakrank_agent.hooks.torch.tensor_memory import digests_of
from breakrank_agent.protocol.log import members

WAITS_FOR = "torch"
IN_CHILDREN = True


def install(agent: Agent) -> None:
    """Wrap `torch.save` and `torch.load`, in children of a rank as well."""
    import torch

    interpose(torch, "save", around=_saving(agent))
    interpose(torch, "load", around=_loading(agent))


def _saving(agent: Agent) -> Callable[..., AbstractContextManager[None]]:
    @contextlib.contextmanager
    def saving(obj: Any, f: Any, *_: Any, **__: Any) -> Iterator[None]:
        if agent.services.sharded.threads and _is_part(agent):
            yield
            return
        # A thread may take longer than a step.
        path, done = _path(agent, f), agent.clock.done
        agent.reach("save", says=members({"path": path}))
        if agent.services.tensors is not None:
            agent.services.tensors.read_all(obj, "save")
        if _is_path(f):
            # C++ writes it in one go. A file object asks for a turn before each of its own writes.
            agent.take_turn("save", "w", path, site=agent.sites.here().line)
        aside = threading.get_ident() != agent.main and agent.plan.digests != "none"
        before = digests_of(obj) if aside else []
        try:
            with agent.quietly():
                yield
        except BaseException as error:
            agent.raised("save", error, path=path)
            raise
        changed = sum(one != other for one, other in zip(before, digests_of(obj) if before else ()))
        if changed:
            agent.record("changed", path=path, count=changed, of=len(before), site=agent.sites.here().line)
        with agent.quietly():
            digest = _file_digest(f)
        agent.payload("save", path=path, done=done, **digest)

    return saving


def _loading(agent: Agent) -> Callable[..., AbstractContextManager[None]]:
    @contextlib.contextmanager
    def loading(f: Any, *_: Any, **__: Any) -> Iterator[None]:
        if agent.services.sharded.threads and _is_part(agent):
            yield
            return
        path = _path(agent, f)
        agent.reach("restore", says=members({"path": path}))
        if _is_path(f):
            agent.take_turn("load", "r", path, site=agent.sites.here().line)
        with agent.quietly():
            digest = _file_digest(f)
            yield
        agent.payload("restore", path=path, **digest)

    return loading


def _is_part(agent: Agent) -> bool:
    """Return whether this thread writes or reads a part of something larger: it does that itself, or helps with it."""
    ident = threading.get_ident()
    return ident in agent.services.sharded.threads or ident != agent.main


def _is_path(file: Any) -> bool:
    return isinstance(file, (str, bytes, os.PathLike))


def _path(agent: Agent, file: Any) -> str:
    name = file if _is_path(file) else getattr(file, "name", None)
    return agent.relative(name) if _is_path(name) else "(memory)"


def _file_digest(file: Any) -> dict[str, Any]:
    """Return digest and size of the bytes that lie on disk; nothing for a file object, which is not written yet."""
    return digest_file(file) if _is_path(file) else {"file": None, "size": None}
