"""The Docker engine: the client to it, its kind, and its errors in one line."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import docker
from docker.errors import DockerException

from breakrank.errors import BreakrankError
from breakrank.runners.docker import endpoint
from breakrank.runners.docker.registry import configured

_T = TypeVar("_T")


@functools.cache
def engine() -> docker.DockerClient:
    """Return the engine that the environment, or docker's own configuration, names. Raises `BreakrankError`."""
    host = endpoint.address()
    configured()
    try:
        client = docker.DockerClient(host, use_ssh_client=True)
        client.ping()
    except (DockerException, OSError) as error:
        cure = endpoint.cure("`make docker` starts one, or set DOCKER_HOST")
        raise BreakrankError(f"no Docker engine answers ({error}); {cure}") from None
    return client


@functools.cache
def is_rootless() -> bool:
    """Return whether the engine runs without root: whoever started it is root in its containers."""
    return any(option.startswith("name=rootless") for option in engine().info().get("SecurityOptions") or ())


def words_of(error: Exception) -> str:
    """Return what the engine says, in one line."""
    text = getattr(error, "explanation", None) or getattr(error, "stderr", None) or str(error)
    words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return (words.strip().splitlines() or ["nothing"])[-1]


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn what the engine raises into an `OSError`, which a strike may raise."""
    try:
        yield
    except DockerException as error:
        raise OSError(words_of(error)) from None


def at_once(*calls: Callable[[], _T]) -> list[_T]:
    """Make calls side by side, since the engine takes its time with each; return what they return."""
    with ThreadPoolExecutor(max(1, len(calls))) as pool:
        return [done.result() for done in [pool.submit(call) for call in calls]]
