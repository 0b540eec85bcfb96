"""The compiler of torch: it leaves our own functions as they are, where it traces what calls them."""

from __future__ import annotations

import functools

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks import after_import

WAITS_FOR = "torch"


def install(agent: Agent) -> None:
    """Name our package to the compiler, once it is imported."""
    after_import("torch._dynamo.trace_rules", warm_up)


@functools.cache
def warm_up() -> None:
    """Name our package to the compiler.

    Torch compiles a long regular expression anew for it: once in a zygote, not in each rank.
    """
    from torch._dynamo import trace_rules

    trace_rules.add("breakrank_agent")
