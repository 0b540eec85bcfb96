"""The limit of this process's memory, which the agent's own last records do not depend on."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Lift the soft limit of the address space up to the hard one, for as long as the agent reads parameters.

    A rank that ran out of memory may still hold all that it had taken. Reading its parameters takes a little more,
    and whether that is there would differ from run to run.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == hard:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
