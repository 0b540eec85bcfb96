"""The catalogue finds scenarios: the folder is the registry, and every file in it is one scenario."""

from __future__ import annotations

import difflib
import fnmatch
import functools
import hashlib
import importlib.util
import sys
import traceback
import types
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.plan.scenario import Case, Scenario

#: Selects every scenario.
ALL = "all"
#: Before the name of a family.
FAMILY = "family:"


@functools.cache
def packaged_folder() -> Path:
    """Return the folder of our own scenarios.

    Installed, it is the package `breakrank.scenarios`; run straight from a checkout it lies beside `harness/`.
    """
    spec = importlib.util.find_spec("breakrank.scenarios")
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(__file__).resolve().parents[3] / "scenarios"


def packaged_programs() -> Path:
    """Return the folder of the programs that come with us. Raises `BreakrankError` if they are not installed."""
    spec = importlib.util.find_spec("breakrank.fixtures.programs")
    if spec is None or not spec.submodule_search_locations:
        raise BreakrankError("the programs of Breakrank are not installed; reinstall pytest-breakrank")
    return Path(next(iter(spec.submodule_search_locations)))


def programs_beside(scenario: Path) -> Path:
    """Return the folder of the programs of a scenario file: the one beside it, or else the packaged one.

    Raises `BreakrankError` if there is neither.
    """
    own = scenario.parent / "programs"
    return own if own.is_dir() else packaged_programs()


def load_scenarios(extra: Sequence[Path] = ()) -> dict[str, Scenario]:
    """Return every scenario by name: ours, and those in the folders `extra`.

    Raises `BreakrankError` for a folder that is not there, a broken file, and a name that two files claim.
    """
    found: dict[str, Scenario] = {}
    for folder in _distinct([packaged_folder(), *extra]):
        if not folder.is_dir():
            raise BreakrankError(f"scenario_paths names {folder}, which is no folder; create it or correct the path")
        for path in sorted(folder.glob("[!_]*.py")):
            if path.stem in found:
                other = found[path.stem].path
                raise BreakrankError(f"{path} and {other} are both called {path.stem!r}; rename one of the files")
            found[path.stem] = load_scenario(path)
    return dict(sorted(found.items()))


def _distinct(folders: Iterable[Path]) -> list[Path]:
    """Return the folders without those that are there already under another spelling."""
    return list({folder.resolve(): folder for folder in folders})


def load_scenario(path: Path) -> Scenario:
    """Return the scenario in the file `path`. Raises `BreakrankError`: file, line, and what is wrong."""
    module = _execute(path)
    scenario = getattr(module, "SCENARIO", None)
    if not isinstance(scenario, Scenario):
        what = "defines no SCENARIO" if scenario is None else f"has a {type(scenario).__name__} as SCENARIO"
        raise BreakrankError(f"{path} {what}; a scenario file needs SCENARIO = Scenario(...)")
    if not scenario.cases:
        raise BreakrankError(f"{path}: the scenario has no cases; give it at least one Case(...)")
    summary = next(iter((module.__doc__ or "").strip().splitlines()), "")
    return replace(scenario.named(path.stem, summary, path), family=scenario.family or _family(scenario))


def _family(scenario: Scenario) -> str:
    """Return the family of the first fault that strikes, or the empty string."""
    strikes = [*scenario.strikes, *(s for case in scenario.cases for s in case.strikes or ())]
    return strikes[0].fault.family() if strikes else ""


def _execute(path: Path) -> types.ModuleType:
    """Run the file as a module under a private name."""
    name = f"_breakrank_scenario_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}_{path.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(_code(name, path), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a scenario file may even call sys.exit: that is a broken file, too
        raise BreakrankError(f"{path}, line {_line(error, path)}: {_one_line(error)}") from None
    return module


def _code(name: str, path: Path) -> types.CodeType:
    """Return the code of a file: of ours the bytecode that lies beside it.

    Others are compiled here and not imported, so that no `__pycache__` appears in a folder that is not ours.
    """
    if path.parent != packaged_folder():
        return compile(path.read_bytes(), str(path), "exec")
    code = SourceFileLoader(name, str(path)).get_code(name)
    assert code is not None, "a loader of files always has the code"
    return code


def _line(error: BaseException, path: Path) -> int:
    """Return the line of `path` where the error arose; 1 if none is known."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno or 1 for f in reversed(frames) if f.filename == str(path)), 1)


def _one_line(error: BaseException) -> str:
    """Return the error's type and message on one line."""
    if isinstance(error, BreakrankError):
        return " ".join(str(error).split())
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(str(message).split())}".removesuffix(": ")


def select(scenarios: dict[str, Scenario], wanted: Sequence[str]) -> list[tuple[Scenario, Case]]:
    """Return the cases that `wanted` names: scenarios sorted by name, each once, their cases in the file's order.

    A name is a scenario, a glob, a family, `family:` and its name where a scenario is called so, too, `all`, or
    `scenario::case` (both may be globs). Raises `BreakrankError` for
    one that matches nothing, with the nearest names.
    """
    chosen: set[tuple[str, str]] = set()
    for name in wanted:
        matching = _matching(scenarios, name)
        if not matching:
            raise BreakrankError(_unknown(scenarios, name))
        chosen.update(matching)
    return [(s, case) for s in scenarios.values() for case in s.cases if (s.name, case.name) in chosen]


def _matching(scenarios: dict[str, Scenario], wanted: str) -> list[tuple[str, str]]:
    """Return (scenario, case) of all that one name means."""
    name, _, case_glob = wanted.partition("::")
    if name.startswith(FAMILY) and not wanted.startswith(f"{FAMILY}:"):
        hits = [s for s in scenarios.values() if s.family == name.removeprefix(FAMILY)]
    elif name in scenarios:
        hits = [scenarios[name]]
    elif name == ALL:
        hits = list(scenarios.values())
    else:
        hits = [s for s in scenarios.values() if s.family == name or fnmatch.fnmatchcase(s.name, name)]
    return [(s.name, c.name) for s in hits for c in s.cases if fnmatch.fnmatchcase(c.name, case_glob or "*")]


def _unknown(scenarios: dict[str, Scenario], wanted: str) -> str:
    """Say that no scenario is called so, and which names come nearest."""
    name, _, case = wanted.partition("::")
    if case and name in scenarios:
        return f"scenario {name!r} has no case {case!r}; cases are {', '.join(c.name for c in scenarios[name].cases)}"
    known = sorted({*scenarios, *(s.family for s in scenarios.values() if s.family)})
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if not known:
        return f"unknown scenario {wanted!r}: no scenarios were found at all in {packaged_folder()}"
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
    return f"unknown scenario {wanted!r}; {hint} (pytest --scenario-list shows all)"
