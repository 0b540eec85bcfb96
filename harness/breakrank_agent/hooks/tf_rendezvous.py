"""How workers of TensorFlow find each other: what each believes of the cluster when a strategy is constructed.

`MultiWorkerMirroredStrategy` starts the worker's server, and waits there for all others, without a limit.
"""

from __future__ import annotations

import functools
from typing import Any

from breakrank_agent.frames import hide
from breakrank_agent.probe import Agent

WAITS_FOR = "tensorflow"

#: The tasks that take part in collectives; the first of them leads.
_WORKERS = ("chief", "worker")


def install(agent: Agent) -> None:
    """Wrap what constructs the strategy of several workers."""
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    kind = module.CollectiveAllReduceExtended
    original = kind._initialize_multi_worker

    @functools.wraps(original)
    def _initialize_multi_worker(self: Any, cluster_resolver: Any) -> Any:
        if not agent.here or agent.over:
            return original(self, cluster_resolver)
        facts = _meeting(cluster_resolver)
        agent.record("rendezvous", phase="enter", **facts)
        try:
            result = original(self, cluster_resolver)
        except BaseException as error:
            hide(error)
            agent.record("rendezvous", phase="leave", error=type(error).__name__, **facts)
            raise
        agent.record("rendezvous", phase="leave", **facts)
        return result

    kind._initialize_multi_worker = _initialize_multi_worker


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
        "timeout_s": None,
    }
