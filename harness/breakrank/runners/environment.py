"""The environment that a rank starts in: the contract of torchrun, and what every framework's ranks need."""

from __future__ import annotations

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
