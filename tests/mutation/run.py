"""Mutate the oracles, the judge, blame and the digest, and count the mutants that no test notices: `make mutants`.

mutmut makes the mutants and runs, for each, the tests that reach the changed function: the unit tests of both rooms,
the golden histories of every oracle, and the runs of the whole catalogue, which are made first and judged again. It
fails if fewer than nine of ten are noticed, or if one that is not has no reason in `survivors.txt`.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: The folder in which it works. A call that was cut short goes on from there.
PLACE = ROOT / ".mutants"
#: The least share of the mutants that tests must notice.
LEAST = 0.9
#: Packages of the wheel, and the folders in the tree that they are made from.
PACKAGES = {
    "breakrank": "harness/breakrank",
    "breakrank_agent": "harness/breakrank_agent",
    "breakrank/scenarios": "scenarios",
    "breakrank/fixtures": "fixtures",
}
TESTS = ("tests/unit/oracles", "tests/unit/judge", "tests/conformance/test_every_oracle.py", "tests/mutation")
MUTATED = ("src/breakrank/oracles/*.py", "src/breakrank/judge/*.py")
#: mutmut's words for a mutant that no test notices.
_SURVIVED = ("survived", "no tests")
_SETTINGS = f"""
[tool.mutmut]
source_paths = ["src/breakrank", "src/breakrank_agent"]
only_mutate = {list(MUTATED)}
do_not_mutate = ["src/breakrank/*/__init__.py"]
pytest_add_cli_args_test_selection = {list(TESTS)}
pytest_add_cli_args = ["-p", "no:cacheprovider"]
use_git_change_detection = false
timeout_constant = 5.0
"""


def main() -> int:
    """Make the runs and the mutants, and print the score; return 0 if it is high enough and each survivor explained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anew", action="store_true", help="make runs and mutants anew, as after a change of the code")
    parser.add_argument("--scenario", action="append", help="runs of these scenarios alone instead of all")
    parser.add_argument("names", nargs="*", help="only these mutants, as in breakrank.oracles.finite.*")
    options = parser.parse_args()
    if options.anew:
        shutil.rmtree(PLACE, ignore_errors=True)
    runs = PLACE / "runs"
    if not runs.is_dir():
        _make_runs(runs, options.scenario or ["all"])
        _lay_out()
    environment = {**os.environ, "BREAKRANK_CATALOGUE_RUNS": str(runs)}
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(os.cpu_count() or 1), *options.names]
    subprocess.run(command, cwd=PLACE, env=environment, check=True)
    return _score(_results(environment))


def _make_runs(runs: Path, scenarios: list[str]) -> None:
    """Run the catalogue into a folder; runs that did not come out as recorded are no model and are left out."""
    made = runs.with_name("runs.made")
    shutil.rmtree(made, ignore_errors=True)
    asked = [f"--scenario={name}" for name in scenarios]
    settings = ["-o", f"scenario_runs={made}", "-o", "scenario_runs_limit_mb=20000"]
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2", *asked, *settings], cwd=ROOT, check=False)
    made.rename(runs)


def _lay_out() -> None:
    """Copy the packages and the tests into the layout that mutmut expects."""
    for package, folder in PACKAGES.items():
        shutil.copytree(ROOT / folder, PLACE / "src" / package, dirs_exist_ok=True)
    shutil.copytree(ROOT / "tests", PLACE / "tests", dirs_exist_ok=True)
    for name in ("docs", "scenarios", "fixtures"):
        shutil.copytree(ROOT / name, PLACE / name, dirs_exist_ok=True)
    (PLACE / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + _SETTINGS)


def _results(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what became of each mutant, in mutmut's words."""
    command = [sys.executable, "-m", "mutmut", "results", "--all", "true"]
    said = subprocess.run(command, cwd=PLACE, env=environment, check=True, capture_output=True, text=True).stdout
    pairs = (line.strip().split(": ", 1) for line in said.splitlines() if ": " in line)
    return {name: state for name, state in pairs}


def _reasons() -> Iterator[tuple[str, str]]:
    """Yield each pattern of `survivors.txt` with its reason: a line of patterns after a comment that gives it."""
    reason: list[str] = []
    fresh = True
    for line in (HERE / "survivors.txt").read_text().splitlines():
        if line.startswith("#"):
            reason = [*([] if fresh else reason), line.lstrip("# ")]
            fresh = False
        elif line.strip():
            fresh = True
            yield line.strip(), " ".join(reason)


def _score(results: Mapping[str, str]) -> int:
    """Print the score by module and the survivors without a reason; return the exit code."""
    reasons = dict(_reasons())
    modules: dict[str, Counter[str]] = {}
    unexplained = []
    for name, state in sorted(results.items()):
        survived = state in _SURVIVED
        modules.setdefault(name.rpartition(".x")[0], Counter())["survived" if survived else "noticed"] += 1
        if survived and not any(fnmatch.fnmatchcase(name, pattern) for pattern in reasons):
            unexplained.append(f"{name}: {state}")
    whole = sum(modules.values(), Counter[str]())
    for module, counts in [*modules.items(), ("all", whole)]:
        total = counts.total()
        print(f"{counts['noticed'] / total:7.1%} of {total:5} mutants noticed  {module}")
    print(f"{len(unexplained)} of {whole['survived']} survivors have no reason in tests/mutation/survivors.txt")
    print("\n".join(unexplained[:40]))
    share = whole["noticed"] / max(1, whole.total())
    print(
        f"the aim, {LEAST:.0%} noticed and each survivor explained: {'met' if share >= LEAST and not unexplained else 'NOT met'}"
    )
    return 0 if share >= LEAST and not unexplained else 1


if __name__ == "__main__":
    sys.exit(main())
