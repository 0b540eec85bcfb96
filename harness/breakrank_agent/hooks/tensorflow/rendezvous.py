"""Rendezvous of TensorFlow's workers: each one's view of the cluster when a strategy is constructed.

`MultiWorkerMirroredStrategy` starts the worker's server, and waits there for all others, without a limit.
"""

from __future__ import annotations

import os
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose

WAITS_FOR = "tensorflow"

#: The tasks that take part in collectives; the first of them leads.
_WORKERS = ("chief", "worker")
#: Variables that name gRPC's proxy, and hosts that it reaches without: the first that is set (http_proxy_mapper.cc).
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")


def install(agent: Agent) -> None:
    """Wrap what constructs the strategy of several workers."""
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def enter(_: Any, cluster_resolver: Any) -> Optional[dict[str, Any]]:
        if not agent.here or agent.over:
            return None
        facts = _meeting(cluster_resolver)
        agent.record("rendezvous", phase="enter", **facts)
        return facts

    def leave(facts: Optional[dict[str, Any]], _: Any) -> None:
        if facts is not None:
            agent.record("rendezvous", phase="leave", **facts)

    def fail(facts: Optional[dict[str, Any]], error: BaseException) -> None:
        if facts is not None:
            agent.record("rendezvous", phase="leave", error=type(error).__name__, **facts)

    interpose(module.CollectiveAllReduceExtended, "_initialize_multi_worker", enter, leave, fail)


def _meeting(resolver: Any) -> dict[str, Any]:
    """Return what a worker believes: its number, of how many, where, and the addresses of all."""
    tasks = resolver.cluster_spec().as_dict()
    workers = [address for job in _WORKERS for address in tasks.get(job, ())]
    before = len(tasks.get("chief", ())) if resolver.task_type == "worker" else 0
    rank = before + (resolver.task_id if resolver.task_id is not None else -1)
    return {
        "op": "MultiWorkerMirroredStrategy",
        "rank": rank,
        "world": len(workers),
        "init": "TF_CONFIG",
        "master": str(workers[0]) if workers else "",
        "cluster": ",".join(map(str, workers)),
        "backend": "grpc",
        "interface": "",
        "proxy": _proxy(workers),
        "timeout_s": None,
    }


def _proxy(workers: list[Any]) -> str:
    """Return the proxy that gRPC asks for the way to a worker, if there is one."""
    proxy, spared = (next(filter(None, map(os.environ.get, names)), "") for names in (_PROXIES, _EXCEPTIONS))
    ends = tuple(part.strip() for part in spared.split(",") if part.strip())
    return proxy if not all(str(one).rpartition(":")[0].endswith(ends) for one in workers) else ""
