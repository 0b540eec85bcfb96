"""A script of Ray Train's that runs under torchrun as well, and a pytest that strikes it in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.ground import PYTEST

#: Its workers import torch's compiler with the first optimizer, as those of any job do.
SCRIPT = """
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train():
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step * 100 + rank))
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if "RANK" in os.environ:
    dist.init_process_group("gloo")
    train()
else:
    import ray
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    ray.init(num_cpus=2, include_dashboard=False)
    TorchTrainer(train, scaling_config=ScalingConfig(num_workers=2)).fit()
"""
RAY, TORCHRUN = "python driver.py", "torchrun --standalone --nproc-per-node=2 driver.py"
#: Seconds without a point; Ray takes long to start on a busy machine.
DEADLINE_S = 900


def lacks() -> str:
    """Return why there can be no Ray here, empty if there can."""
    return "" if find_spec("ray") else "needs Ray: pip install 'ray[train]'"


def start(folder: Path, *options: str, command: str = RAY) -> subprocess.Popen[str]:
    """Start a pytest on the script in a folder, with a home in it."""
    (folder / "driver.py").write_text(SCRIPT)
    (folder / "pytest.ini").write_text("[pytest]\n")
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "RAY_"))}
    path = os.pathsep.join([os.path.dirname(sys.executable), env["PATH"]])
    words = [*PYTEST, "-p", "breakrank.plugin", *options, f"--scenario-train={command}"]
    return subprocess.Popen(
        [*words, f"--scenario-deadline={DEADLINE_S}"],
        cwd=folder, env={**env, "HOME": str(home), "PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def verdicts(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the verdicts by the names of the runs."""
    return {path.parent.name: json.loads(path.read_text()) for path in folder.glob(".breakrank/*/verdict.json")}


def events(folder: Path, file: str) -> list[dict[str, Any]]:
    """Return the events of files of that name in the run directories."""
    return [json.loads(line) for path in sorted(folder.glob(f".breakrank/*/{file}")) for line in path.open()]


def rays_folder(folder: Path) -> Path:
    """Return where Ray keeps its files in the run that is under way, as the command's environment says."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = dict(word.partition("=")[::2] for word in (path / "environ").read_text().split("\0"))
        except OSError:
            continue
        if variables.get("HOME") == str(folder / "home") and "RAY_TMPDIR" in variables:
            return Path(variables["RAY_TMPDIR"])
    raise AssertionError("no command of Ray's runs")


def left(folder: Path) -> list[str]:
    """Return the processes that are left of the script, by the home that they have."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"HOME={folder / 'home'}" in (path / "environ").read_text().split("\0"):
                found.append((path / "cmdline").read_text())
        except OSError:
            continue
    return found
