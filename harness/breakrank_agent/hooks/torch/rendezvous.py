"""Rendezvous of torch's ranks: `init_process_group` and `new_group`, on entering and on leaving them.

In both, every rank waits for all others in the store, which no operator shows.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose

WAITS_FOR = "torch"


def install(agent: Agent) -> None:
    """Wrap the functions, in each module that has them."""
    import torch

    if not torch.distributed.is_available():
        return
    _watch(agent, "init_process_group", "rendezvous", _meeting)
    _watch(agent, "new_group", "grouping", partial(_grouping, agent))
    _watch_end(agent)


def _watch(agent: Agent, name: str, kind: str, describe: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> None:
    import torch.distributed as dist

    def enter(*args: Any, **kwargs: Any) -> Optional[dict[str, Any]]:
        if not agent.here or agent.over:
            return None
        facts: dict[str, Any] = describe(args, kwargs)
        agent.record(kind, phase="enter", **facts)
        if agent.turns is not None:
            # One rank at a time would wait in it unannounced.
            met = f"{name} {agent.accesses.number(name)}"
            agent.turns.ask({"collective": [name, met, agent.plan.ranks]}, waits=True)
        return facts

    def leave(facts: Optional[dict[str, Any]], _: Any) -> None:
        if facts is not None:
            agent.record(kind, phase="leave", **facts)

    def fail(facts: Optional[dict[str, Any]], error: BaseException) -> None:
        if facts is not None:
            agent.record(kind, phase="leave", error=type(error).__name__, **facts)

    before = getattr(dist, name)
    wrapped = interpose(dist.distributed_c10d, name, enter, leave, fail)
    # A mesh makes its groups by a name of its own.
    for module in (dist, sys.modules.get("torch.distributed.device_mesh")):
        if getattr(module, name, None) is before:
            setattr(module, name, wrapped)


def _watch_end(agent: Agent) -> None:
    """Let go of works before their group is destroyed: they hold it."""
    import torch.distributed as dist

    def forget(*_: Any, **__: Any) -> None:
        if agent.services.works is not None:
            agent.services.works.forget()

    dist.destroy_process_group = interpose(dist.distributed_c10d, "destroy_process_group", forget)


def _meeting(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return what a call of `init_process_group` names; what it does not, torch takes from the environment."""
    import torch

    names = ("backend", "init_method", "timeout", "world_size", "rank", "store")
    said = {**dict(zip(names, args)), **kwargs}
    init = said.get("init_method") or ("store" if said.get("store") is not None else "env://")
    master = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    scheme, _, address = str(init).partition("://")
    rank, world = said.get("rank", -1), said.get("world_size", -1)
    timeout = said.get("timeout") or torch.distributed.default_pg_timeout
    return {
        "rank": int(rank) if rank is not None and rank >= 0 else _number("RANK"),
        "world": int(world) if world is not None and world >= 0 else _number("WORLD_SIZE"),
        "init": str(init),
        "master": master if scheme == "env" else address if scheme == "tcp" else "",
        "backend": str(said.get("backend") or ""),
        "interface": os.environ.get("GLOO_SOCKET_IFNAME", ""),
        "timeout_s": timeout.total_seconds(),
    }


def _grouping(agent: Agent, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return what a call of `new_group` names, and the line that calls."""
    names = ("ranks", "timeout", "backend", "pg_options", "use_local_synchronization")
    said = {**dict(zip(names, args)), **kwargs}
    ranks, site = said.get("ranks"), agent.sites.here().line
    facts: dict[str, Any] = {"ranks": [int(rank) for rank in ranks] if ranks is not None else None}
    facts.update({"local": True} if said.get("use_local_synchronization") else {})
    return {**facts, "site": site} if site else facts


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else -1
