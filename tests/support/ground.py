"""Helpers of the hostile tests: a script to train, a disk that is small, and a pytest in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "harness"
TESTS = Path(__file__).parents[1]
#: Options of pytest that leave plugins out which others have installed beside us: they take two thirds of its start.
LEAN = ("-p", "no:faker", "-p", "no:anyio")
#: Starts pytest so.
PYTEST = (sys.executable, "-m", "pytest", *LEAN)

#: A tmpfs takes root; without root it takes a user namespace, which the machine may forbid.
small_disks = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk; run the tests as root")

#: A model that trains for so many steps; `before` is done at the beginning of each. It updates by hand, because torch's
#: optimizers import torch's compiler, which takes as long as torch.
SCRIPT = """
import os, sys, torch

def before(step):
{before}

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
for step in range({steps}):
    before(step)
    model.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
"""

#: The same without a framework: it starts in a tenth of the time.
STEPS = """
import os, sys, time
import breakrank_agent

def before(step):
{before}

for step in range({steps}):
    before(step)
    breakrank_agent.step()
"""


def script(before="pass", steps=4):
    """Return the text of a script that trains."""
    return _filled(SCRIPT, before, steps)


def stepping(before="pass", steps=4):
    """Return the text of a script that makes steps and trains nothing."""
    return _filled(STEPS, before, steps)


def _filled(text, before, steps):
    indented = "\n".join(f"    {line}" for line in before.strip().splitlines())
    return text.format(before=indented, steps=steps)


def environment(**more):
    """Return an environment without the words of the pytest that runs this test; no line is wrapped in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
    search = [str(HARNESS), str(TESTS), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "COLUMNS": "400", "PYTHONPATH": os.pathsep.join(search), **more}


def pytest_in(folder, *arguments, wrapped=(), plugins=("breakrank.plugin",), env=None, limit_s=240, python=()):
    """Run pytest in a process of its own, `wrapped` in another program; return the finished process."""
    chosen = [word for plugin in plugins for word in ("-p", plugin)]
    command = [*wrapped, PYTEST[0], *python, *PYTEST[1:], *chosen, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=env or environment(),
        capture_output=True,
        timeout=limit_s,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
    )


def on_a_disk_of(megabytes, folder):
    """Return the words that run a program with `folder` as a disk of so many megabytes, and keep the disk's files."""
    mount = f'mount -t tmpfs -o size={megabytes}m none "$0" && "$@"; s=$?; cp -a "$0" "$0.kept"; exit $s'
    return ["unshare", "--mount", "sh", "-c", mount, str(folder)]
