"""Files that `safetensors.torch` writes and reads: a save, or a restore, with the digest of what lies on disk.

`safe_open`, which maps a file and reads single tensors of it, is not seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks.python.files import digest_file
from breakrank_agent.protocol.log import members

WAITS_FOR = "safetensors.torch"


def install(agent: Agent) -> None:
    """Wrap what saves a file, and what loads one."""
    import safetensors.torch as package

    interpose(package, "save_file", around=_saving(agent))
    interpose(package, "load_file", around=_loading(agent))


def _saving(agent: Agent) -> Callable[..., AbstractContextManager[None]]:
    @contextlib.contextmanager
    def saving(tensors: Any, filename: Any, *_: Any, **__: Any) -> Iterator[None]:
        path, done = agent.relative(filename), agent.clock.done
        agent.reach("save", says=members({"path": path}))
        try:
            with agent.quietly():
                yield
        except BaseException as error:
            agent.raised("save", error, path=path)
            raise
        with agent.quietly():
            digest = digest_file(filename)
        agent.payload("save", path=path, done=done, **digest)

    return saving


def _loading(agent: Agent) -> Callable[..., AbstractContextManager[None]]:
    @contextlib.contextmanager
    def loading(filename: Any, *_: Any, **__: Any) -> Iterator[None]:
        path = agent.relative(filename)
        agent.reach("restore", says=members({"path": path}))
        with agent.quietly():
            digest = digest_file(filename)
            yield
        agent.payload("restore", path=path, **digest)

    return loading
