"""The wheel in an environment of its own: a user's file is checked as strictly there as ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD = """
from breakrank import SURVIVED, Case, Job, Scenario, at, faults

strike = faults.Kill() @ at(rank=1, step=3)
reveal_type(strike)
SCENARIO = Scenario(
    job=Job(ranks=2, steps=5),
    strikes=[strike, faults.Throttle(percent=20.0) @ at(rank="one", step=2)],
    cases=[Case("torch-plain", "linear:plain", expect=SURVIVED)],
)
"""


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Return what mypy says of a text, in strict mode, in an environment that has the wheel and nothing else."""
    pytest.importorskip("mypy", reason="needs mypy: pip install 'pytest-breakrank[lint]'")
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True)
    if listed.returncode:
        pytest.skip("needs the repository: the files of an installation are not those that a wheel is built of")
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "tree" / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, folder / "tree"], check=True
    )
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel], check=True)

    def say(text):
        (folder / "mine.py").write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "mine.py"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout

    return say


def test_a_scenario_with_strikes_is_typed_and_nothing_of_it_is_any(check):
    said = check(GOOD)
    assert 'Revealed type is "breakrank_agent.protocol.fault.Strike"' in said
    assert "Success: no issues found in 1 source file" in said


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        ("faults.Kil()", 'Module has no attribute "Kil"; maybe "Kill"?'),
        ("faults.Throttle(percentage=20.0)", 'Unexpected keyword argument "percentage" for "Throttle"'),
        ("faults.Throttle(percent='much')", 'Argument "percent" to "Throttle" has incompatible type "str"'),
    ],
)
def test_a_slip_in_a_fault_is_an_error_at_its_line(check, slip, words):
    said = check(f"from breakrank import at, faults\n\nstrike = {slip} @ at(rank=1, step=3)\n")
    assert "mine.py:3: error: " in said and words in said
