"""Mutate the oracles, the judge, blame and the digest, and count the mutants that no test notices: `make mutants`.

mutmut makes the mutants. For each, `trial.py` runs the tests that reach the changed function: the unit tests of both
rooms with their golden histories, and the runs of the whole catalogue, which are made first and judged again. A mutant
is noticed if a test fails, or if it never ends. The command fails if fewer than nine of ten are noticed, or if one that
is not has no reason in `survivors.txt`. A call that was cut short goes on where it stopped. After a change of the code
or of the tests, functions that changed are mutated anew, and survivors are tried again. The runs are kept until a call
with `--anew`, and names choose modules: `make mutants ARGS='breakrank.judge.blame.*'`.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from changes import changes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: The folder in which it works: the packages with all mutants in them, the runs, and what is known.
PLACE = ROOT / ".mutants"
SOURCE, RUNS, MADE, KNOWN = PLACE / "src", PLACE / "runs", PLACE / "made", PLACE / "known.jsonl"
#: The least share of the mutants that tests must notice.
LEAST = 0.9
#: Packages of the wheel, and the folders in the tree that they are made from.
PACKAGES = {
    "breakrank": "harness/breakrank",
    "breakrank_agent": "harness/breakrank_agent",
    "breakrank/scenarios": "scenarios",
    "breakrank/fixtures": "fixtures",
}
TESTS = (
    "tests/unit/oracles",
    "tests/unit/judge",
    "tests/unit/analysis",
    "tests/unit/host/test_crash_dump.py",
    "tests/mutation",
)
MUTATED = (
    "breakrank/oracles/[!_]*.py",
    "breakrank/judge/[!_]*.py",
    "breakrank/analysis/clip_norms.py",
    "breakrank/analysis/gradient_scale.py",
    "breakrank/analysis/padding.py",
    "breakrank/analysis/shard_losses.py",
)
#: mutmut reads its settings in the folder from which it is called.
_SETTINGS = '[tool.mutmut]\nsource_paths = ["src"]\n'


class Mutant(NamedTuple):
    """A mutant by mutmut's name, and a hash of the function that it changes."""

    name: str
    code: str


def main() -> int:
    """Make the runs and the mutants, and print the score; return 0 if it is high enough and each survivor explained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anew", action="store_true", help="forget all runs and mutants of an earlier call")
    parser.add_argument("--scenario", action="append", help="runs of these scenarios alone instead of all")
    parser.add_argument("--score", action="store_true", help="print what is known, and try no mutant")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth mutant alone, for an estimate")
    parser.add_argument("names", nargs="*", default=["*"], help="only these mutants, as in breakrank.oracles.finite.*")
    options = parser.parse_args()
    if options.anew:
        shutil.rmtree(PLACE, ignore_errors=True)
    if not RUNS.is_dir():
        _make_runs(options.scenario or ["all"])
    _lay_out()
    named = [
        m for m in _mutate(options.names) if any(fnmatch.fnmatchcase(m.name, pattern) for pattern in options.names)
    ]
    mutants = named[:: max(1, options.every)]
    if not mutants:
        sys.exit(
            f"there is no mutant of the name {' or '.join(options.names)}; names are as in breakrank.oracles.finite.*"
        )
    known = _known()
    wanted = [mutant for mutant in mutants if not known.get(mutant)]
    if wanted and not options.score:
        _try(wanted)
    return _score({m: _known().get(m) for m in mutants})


def _make_runs(scenarios: Sequence[str]) -> None:
    """Run the catalogue into a folder."""
    made = RUNS.with_name("runs.made")
    shutil.rmtree(made, ignore_errors=True)
    asked = [f"--scenario={name}" for name in scenarios]
    settings = ["-o", f"scenario_runs={made}", "-o", "scenario_runs_limit=20000"]
    ended = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2", *asked, *settings], cwd=ROOT, check=False)
    if ended.returncode > 1:
        sys.exit(f"the runs could not be made: pytest ended with {ended.returncode}")
    made.rename(RUNS)


def _lay_out() -> None:
    """Copy the packages of the tree."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for package, folder in PACKAGES.items():
        shutil.copytree(ROOT / folder, SOURCE / package, dirs_exist_ok=True)
    (PLACE / "pyproject.toml").write_text(_SETTINGS)
    MADE.mkdir(exist_ok=True)
    os.chdir(PLACE)


def _mutate(names: Sequence[str]) -> list[Mutant]:
    """Put all mutants into the modules that judge, as far as mutants of these names may be there, and return them."""
    modules = [module for pattern in MUTATED for module in sorted(SOURCE.glob(pattern))]
    modules = [module for module in modules if any(_may_hold(_package(module), name) for name in names)]
    with multiprocessing.Pool() as pool:
        return [mutant for found in pool.map(_mutate_module, modules) for mutant in found]


def _may_hold(package: str, name: str) -> bool:
    """Return whether a name with wildcards may be that of a mutant of a module."""
    begin = re.split(r"[*?[]", name)[0]
    return package.startswith(begin) or begin.startswith(f"{package}.")


def _package(module: Path) -> str:
    return ".".join(module.relative_to(SOURCE).with_suffix("").parts)


def _mutate_module(module: Path) -> list[Mutant]:
    """Put all mutants into a module; what mutmut makes of it is kept, as it takes long."""
    from mutmut.mutation.file_mutation import mutate_file_contents

    text = module.read_text()
    kept = MADE / f"{module.stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        made = mutate_file_contents(str(module), text)
        kept.write_text(json.dumps([made.code, list(made.mutant_names), dict(made.hash_by_function_name)]))
    code, names, hashes = json.loads(kept.read_text())
    module.write_text(code)
    return [Mutant(f"{_package(module)}.{name}", hashes[name.partition("__mutmut_")[0]]) for name in names]


def _known() -> dict[Mutant, str]:
    """Return which test has noticed each mutant that was tried; empty if none did."""
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    return {Mutant(name, code): by for name, code, by in map(json.loads, lines)}


def _try(mutants: Sequence[Mutant]) -> None:
    """Try mutants; what becomes of each is added to what is known."""
    wanted = PLACE / "wanted.json"
    wanted.write_text(json.dumps([(*mutant, _is_explained(mutant)) for mutant in mutants]))
    environment = {**os.environ, "BREAKRANK_CATALOGUE_RUNS": str(RUNS), "PYTHONPATH": str(SOURCE)}
    tests = [str(ROOT / tests) for tests in TESTS]
    command = [sys.executable, str(HERE / "trial.py"), str(wanted), str(KNOWN), *tests]
    if subprocess.run(command, cwd=PLACE, env=environment, check=False).returncode:
        sys.exit("no mutant was tried: the tests must pass on the code as it is, see above")


def _reasons() -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield each pattern of `survivors.txt` with its reason: lines of patterns after a comment that gives it.

    A pattern describes changes as they are printed; `*` stands for anything, and nothing else for more than itself.
    """
    reason: list[str] = []
    fresh = True
    for line in (HERE / "survivors.txt").read_text().splitlines():
        if line.startswith("#"):
            reason = [*([] if fresh else reason), line.lstrip("# ")]
            fresh = False
        elif line.strip():
            fresh = True
            yield re.compile(".*".join(map(re.escape, line.strip().split("*")))), " ".join(reason)


def _is_explained(mutant: Mutant) -> bool:
    """Return whether a mutant has a reason in `survivors.txt`."""
    return any(pattern.fullmatch(changes(SOURCE, mutant.name)) for pattern in _patterns())


@functools.cache
def _patterns() -> list[re.Pattern[str]]:
    return [pattern for pattern, _ in _reasons()]


def _score(results: Mapping[Mutant, str | None]) -> int:
    """Print the score by module and the survivors without a reason; return the exit code."""
    modules: dict[str, Counter[str]] = {}
    unexplained = []
    for mutant, noticed in results.items():
        kind = "untried" if noticed is None else "noticed" if noticed else "survived"
        modules.setdefault(mutant.name.rpartition(".x")[0], Counter())[kind] += 1
        if kind == "survived" and not _is_explained(mutant):
            unexplained.append(changes(SOURCE, mutant.name))
    whole = sum(modules.values(), Counter[str]())
    print(*unexplained, sep="\n")
    for module, counts in [*modules.items(), ("all", whole)]:
        untried = f" ({counts['untried']} untried)" if counts["untried"] else ""
        print(f"{counts['noticed'] / counts.total():7.1%} of {counts.total():5} mutants noticed  {module}{untried}")
    print(f"{len(unexplained)} of {whole['survived']} survivors have no reason in tests/mutation/survivors.txt")
    met = whole["noticed"] >= LEAST * whole.total() and not unexplained and not whole["untried"]
    print(f"the aim, {LEAST:.0%} noticed and each survivor explained: {'met' if met else 'NOT met'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
