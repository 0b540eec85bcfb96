"""Checks that need a CUDA card, in under 4 minutes: `python3 tests/gpu/run.py`, or `make gpu`.

Needs one card, Linux and a torch with CUDA: nothing of ours is installed, and no network is used. Prints one line a
check and writes `figures.json` beside this file. Exits with 0 if every check passed, 1 if not, 3 without a card.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from checks import CHECKS
from launch import Failed, Launcher

FIGURES = Path(__file__).resolve().parent / "figures.json"
#: The limit for all checks together; a check that is not done by then fails.
LIMIT_S = 225.0

#: Run by a process of its own, because the process that starts the ranks imports no torch.
_MACHINE = """
import json, torch
card = torch.cuda.is_available()
print(json.dumps({
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "nccl": ".".join(map(str, torch.cuda.nccl.version())) if card and torch.distributed.is_nccl_available() else None,
    "card": torch.cuda.get_device_name(0) if card else None,
    "bytes": torch.cuda.get_device_properties(0).total_memory if card else None,
}))
"""


def main() -> int:
    """Run the checks and return the exit code."""
    parser = argparse.ArgumentParser(description="Check Breakrank's agent on a CUDA card.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help=argparse.SUPPRESS)
    device = parser.parse_args().device
    began = time.monotonic()
    machine = look()
    missing = machine.get("missing")
    if device == "cuda" and not missing and not machine["card"]:
        built = f"built for CUDA {machine['cuda']}" if machine["cuda"] else "built without CUDA"
        missing = f"a CUDA card (torch {machine['torch']} is {built} and sees none)"
    if missing:
        print(f"not run: what is missing is {missing}")
        return 3
    card = machine["card"] if device == "cuda" else "no card"
    print(f"{card}, driver {machine['driver']}, CUDA {machine['cuda']}, torch {machine['torch']}")
    with tempfile.TemporaryDirectory(prefix="breakrank-gpu-") as folder:
        launcher = Launcher(device, Path(folder), began + LIMIT_S)
        checks = {name: check(name, launcher) for name in CHECKS}
    passed = all(found["ok"] for found in checks.values())
    took = round(time.monotonic() - began, 1)
    if device == "cuda":
        figures = {**machine, "seconds": took, "ok": passed, "checks": checks}
        FIGURES.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    print(f"{sum(found['ok'] for found in checks.values())} of {len(checks)} checks passed in {took:g} s")
    return 0 if passed else 1


def look() -> dict[str, Any]:
    """Return the date, the card, its driver and the versions; or only `missing`: what torch lacks."""
    command = [sys.executable, "-W", "ignore", "-c", _MACHINE]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if asked.returncode:
        last = ["", *asked.stderr.strip().splitlines()][-1]
        return {"missing": f"a torch that {sys.executable} can use ({last})"}
    found: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {"date": date, "python": platform.python_version(), "driver": driver(), **found}


def driver() -> str:
    """Return the version of NVIDIA's driver, as its own tool says it."""
    try:
        asked = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (asked.stdout.split() or ["unknown"])[0] if asked.returncode == 0 else "unknown"


def check(name: str, launcher: Launcher) -> dict[str, Any]:
    """Run one check, print its line, and return its record; the next check runs whatever this one raises."""
    began = time.monotonic()
    try:
        passed, (says, figures) = True, CHECKS[name](launcher)
    except Failed as failure:
        passed, says, figures = False, str(failure), dict(failure.figures)
    except Exception as error:
        passed, says, figures = False, f"the check itself failed: {type(error).__name__}: {error}", {}
    took = round(time.monotonic() - began, 1)
    line = " ".join(says.split())
    print(f"{'passed' if passed else 'FAILED'}  {name}: {line} ({took:g} s)", flush=True)
    return {"ok": passed, "says": line, "seconds": took, "figures": figures}


if __name__ == "__main__":
    sys.exit(main())
