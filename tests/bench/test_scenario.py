"""The time of the first command, `pytest --scenario=race_condition`, end to end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from measure import Measured, aim

#: The aim of the design, in seconds, without the imports.
AIM_S = 2.0


def test_what_a_scenario_takes_after_the_imports(tmp_path):
    command = [sys.executable, "-m", "pytest", "-p", "stopwatch", "--scenario=race_condition"]
    # The stopwatch counts one zygote, and each framework has its own.
    command += ["--scenario-framework=torch"]
    whole, after = [], []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        spent = folder / "imports"
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        began = time.monotonic()
        env |= {"BENCH_BEGAN": str(began), "BENCH_IMPORTS": str(spent), "PYTHONPATH": str(Path(__file__).parent)}
        subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
        whole.append(time.monotonic() - began)
        after.append(whole[-1] - float(spent.read_text()))
    name = "pytest --scenario=race_condition"
    Measured(name, whole, "cold", "nothing").show()
    left_out = "the imports: until pytest has loaded its plugins, and until the zygote has torch; no control was cached"
    Measured(f"{name}, after the imports", after, "warm", left_out).show()
    aim(f"less than {AIM_S:g} s after the imports", median(after) < AIM_S)
