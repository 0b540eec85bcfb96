"""`--part=NAME` collects the tests of the part with this name, and no others."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    # The parts are found by importing every registry, for which a run without `--part` has no need.
    from support.parts import Ids

_WANTED: pytest.StashKey[Ids] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "try one fault, witness, oracle, runner, hook, scenario or program (module:function) alone"
    parser.addoption("--part", metavar="NAME", help=words)


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--part")
    if name is None:
        return
    from support.parts import all_parts

    parts = all_parts()
    if name not in parts:
        near = difflib.get_close_matches(name, parts, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "name a fault, witness, oracle, runner or scenario"
        raise pytest.UsageError(f"no part is called {name!r}; {hint}")
    config.stash[_WANTED] = parts[name]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    wanted = config.stash.get(_WANTED, None)
    return True if wanted is not None and collection_path.is_file() and collection_path.name not in wanted else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.stash.get(_WANTED, None)
    if wanted is None:
        return
    chosen: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        chosen[any(_is_of(item, part) for part in wanted[item.path.name])].append(item)
    config.hook.pytest_deselected(items=chosen[False])
    items[:] = chosen[True]


def _is_of(item: pytest.Item, part: str) -> bool:
    """Return whether the part is a parameter of a test, by its id; ids of several parameters are joined by dashes."""
    ids = item.name.partition("[")[2].removesuffix("]")
    return part == ids or ("::" not in part and part in ids.split("-"))
