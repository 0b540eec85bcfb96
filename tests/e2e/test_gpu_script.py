"""The script for a CUDA card, on a machine without a card."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GPU = Path(__file__).parents[1] / "gpu"


def test_without_a_card_it_says_in_one_line_what_is_missing_and_writes_nothing():
    figures = GPU / "figures.json"
    before = figures.read_bytes() if figures.exists() else None
    asked = subprocess.run(
        [sys.executable, str(GPU / "run.py")],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 3
    assert asked.stdout.startswith("not run: what is missing is a CUDA card")
    assert asked.stdout.count("\n") == 1 and not asked.stderr
    assert (figures.read_bytes() if figures.exists() else None) == before
