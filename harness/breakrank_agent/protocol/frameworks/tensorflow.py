"""The profile of TensorFlow, with Keras."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Optional

from breakrank_agent.protocol.frameworks import Framework, KnownWait

#: In the environment of a case: the type of each rank's task, such as `chief,worker,worker,ps`. Without it, all work.
TASKS = "BREAKRANK_TASKS"


def cluster(rank: int, addresses: Sequence[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Return `TF_CONFIG` for `rank` of those at `addresses` (host:port)."""
    tasks = asked.get(TASKS)
    types = tasks.split(",") if tasks else ["worker"] * len(addresses)
    if len(types) != len(addresses):
        raise ValueError(f"{TASKS} names {len(types)} tasks for {len(addresses)} ranks")
    jobs: dict[str, list[str]] = {}
    for kind, address in zip(types, addresses):
        jobs.setdefault(kind, []).append(address)
    task = {"type": types[rank], "index": types[:rank].count(types[rank])}
    return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": task})}


def place(environment: Mapping[str, str]) -> Optional[tuple[int, int]]:
    """Return the rank and the world size of the task that `TF_CONFIG` names; None without one that is in its cluster.

    Ranks are numbered as `cluster` does it: in the order of the jobs, and of the addresses in each.
    """
    try:
        config = json.loads(environment.get("TF_CONFIG", ""))
        jobs, task = config["cluster"], config["task"]
        tasks = [(kind, index) for kind, addresses in jobs.items() for index in range(len(addresses))]
        return tasks.index((task["type"], int(task["index"]))), len(tasks)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


FRAMEWORK = Framework(
    name="tensorflow",
    cure="pip install tensorflow-cpu",
    modules=("tensorflow", "keras"),
    warm=("tensorflow", "keras"),
    environment={"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    variables=("TF_CONFIG",),
    cluster=cluster,
    place=place,
    # Only TensorFlow records on which device an operation is placed.
    oracles=("placement",),
    backends=("grpc",),
    packages=("tensorflow", "keras", "tf_keras"),
    waits=(KnownWait("tensorflow/python/eager/execute.py", ("quick_execute",), "other", "a TensorFlow operation"),),
)
