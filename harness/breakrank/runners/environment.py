"""The environment that a rank starts in: the contract of torchrun, and what every framework's ranks need."""

from __future__ import annotations

from collections.abc import Mapping

#: Set for the programs that come with us, before a framework is imported: no thread pools, so that results do not
#: depend on the cores and a fork is safe. The profile of the framework adds its own.
PINNED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


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


def of_rank(environment: Mapping[str, str], rank: int) -> dict[str, str]:
    """Return the variables of a plan as one rank has them: `NAME@1` is the variable NAME of rank 1 alone."""
    common = {name: value for name, value in environment.items() if "@" not in name}
    own = {name.rpartition("@")[0]: value for name, value in environment.items() if name.endswith(f"@{rank}")}
    return {**common, **own}


def has_own(environment: Mapping[str, str], rank: int) -> bool:
    """Return whether a rank has variables of its own."""
    return any(name.endswith(f"@{rank}") for name in environment)
