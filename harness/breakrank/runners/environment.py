"""What a rank finds in its environment: the contract of torchrun, and for TensorFlow that of its clusters."""

from __future__ import annotations

import json
from collections.abc import Sequence

#: Set for the programs that come with us, before a framework is imported: no thread pools, so that results do not
#: depend on the cores and a fork is safe.
PINNED = {
    "": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
    "tensorflow": {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
}


def torchrun(rank: int, ranks: int, attempt: int, restarts: int, run: str, port: int) -> dict[str, str]:
    """Return what `torchrun` sets for a rank of one machine."""
    world = str(ranks)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "ROLE_RANK": str(rank),
        "ROLE_NAME": "default",
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": world,
        "GROUP_WORLD_SIZE": "1",
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(restarts),
        "TORCHELASTIC_RUN_ID": run,
    }


#: In the environment of a case: the type of each rank's task, such as `chief,worker,worker,ps`. Without it, all work.
TASKS = "BREAKRANK_TASKS"


def cluster(rank: int, addresses: Sequence[str], tasks: str = "") -> dict[str, str]:
    """Return `TF_CONFIG` for `rank` of those at `addresses` (host:port), whose types of task are `tasks`."""
    types = tasks.split(",") if tasks else ["worker"] * len(addresses)
    jobs: dict[str, list[str]] = {}
    for kind, address in zip(types, addresses, strict=True):
        jobs.setdefault(kind, []).append(address)
    task = {"type": types[rank], "index": types[:rank].count(types[rank])}
    return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": task})}
