"""The test cluster of Slurm's: one for all tests of a machine, as long as one of them uses it."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FIXTURE = Path(__file__).parents[2] / "fixtures" / "slurm"
sys.path.insert(0, str(FIXTURE))

import cluster as slurm_cluster  # noqa: E402
from layout import GROUPS, lack, lack_of_groups  # noqa: E402

from breakrank import doctor  # noqa: E402
from breakrank.runs.bench import Bench  # noqa: E402

#: Tests that use the cluster share this lock; those that break it have it alone. Starting takes it alone, too.
_LOCK = Path(tempfile.gettempdir()) / "breakrank-slurm-tests.lock"


def lacks() -> str:
    """Return why there can be no cluster here, empty if there can."""
    reason = lack()
    return f"needs a cluster of Slurm's: {reason}" if reason else ""


@contextmanager
def leased(alone: bool = False) -> Iterator[slurm_cluster.Cluster]:
    """Have the cluster, whole and up, and its configuration in the environment; with others, or `alone`."""
    before = os.environ.get("SLURM_CONF")
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = slurm_cluster.start()
        if not alone:
            fcntl.flock(lock, fcntl.LOCK_SH)
        os.environ["SLURM_CONF"] = str(cluster.layout.configuration)
        # The doctor has looked without the cluster, and has to look again.
        doctor._lack.cache_clear()
        try:
            yield cluster
        finally:
            if before is None:
                del os.environ["SLURM_CONF"]
            else:
                os.environ["SLURM_CONF"] = before
            doctor._lack.cache_clear()
            cluster.close()


@contextmanager
def leased_by_groups() -> Iterator[slurm_cluster.Cluster]:
    """Have a cluster alone that knows processes by control groups. Skips where there is another one, or none can be."""
    if lack_of_groups():
        pytest.skip(f"needs a cluster with control groups: {lack_of_groups()}")
    os.environ[GROUPS] = "1"
    try:
        with leased(alone=True) as cluster:
            if not (cluster.layout.configuration.parent / "cgroup.conf").exists():
                pytest.skip("the cluster that runs here knows processes by descent: make slurm ARGS=stop")
            yield cluster
    finally:
        del os.environ[GROUPS]
    # The next test is to have one of the other kind.
    until = time.monotonic() + 20
    while Path(f"/proc/{cluster.keeper}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


@contextmanager
def folder_of(cluster: slurm_cluster.Cluster) -> Iterator[Path]:
    """Make a folder that each node sees, and remove it afterwards."""
    made = Path(tempfile.mkdtemp(dir=cluster.layout.shared))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def bench_on_cluster(alone: bool = False) -> Iterator[Bench]:
    """Lease the cluster, and make a bench whose runs its nodes see. Afterwards all nodes are up again."""
    with leased(alone) as cluster, folder_of(cluster) as folder, Bench(folder / "runs", cold=True) as bench:
        yield bench
        if alone:
            cluster.await_up()


def left(cluster: slurm_cluster.Cluster, folder: Path) -> list[str]:
    """Return what is left: our jobs, and on each node processes of the script or of ours, and our folders."""
    jobs = [line for line in cluster.ask("squeue", "-h", "-o", "%i %Z").splitlines() if str(folder) in line]
    ours = (
        r"for p in /proc/[0-9]*; do tr '\0' '\n' < $p/environ 2>/dev/null | grep -q '^BREAKRANK_HOME=' && echo $p; done"
    )
    found = [cluster.on(node, "sh", "-c", f"{ours}; ls -d /tmp/breakrank-*").stdout for node in cluster.layout.names]
    # The cluster's own folder is seen under /tmp on each node.
    lines = [line for text in found for line in text.splitlines() if not line.startswith("/tmp/breakrank-slurm-")]
    return jobs + lines
