"""Imports go one way, and the big packages are imported in one place each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "harness"
OURS = {path: path.relative_to(HARNESS).with_suffix("").as_posix() for path in HARNESS.rglob("*.py")}

#: From below to above: a module imports only from its own layer and those before it.
LAYERS = [
    ("errors", "private", "quotas", "room", "bounded", "chronicle", "history", "verdict", "scenario", "schemas"),
    (
        *("digest", "laws", "lineage", "ends", "blame", "script", "witness", "resolver", "soundings", "ordering"),
        *("calls", "reductions", "alignment", "mismatch", "evidence", "waits", "stuck", "rendezvous", "oddity"),
        *("warden", "session", "guest", "intake", "output", "weights", "roster", "stacks", "follower", "heirs"),
        *("debugger", "in_gdb", "last_words", "hierarchy", "engines", "detour"),
    ),
    ("runners", "oracles", "catalogue"),
    (
        *("turnstile", "strikes", "ranks", "remains", "ways", "watchdog", "autopsy", "conductor"),
        *("judge", "doctor", "looks", "why"),
    ),
    ("provenance", "retention", "saved", "run"),
    ("report",),
    ("plugin", "watch", "voice", "images", "__main__"),
]
STANDARD_ONLY = "breakrank_agent"


def imports(path: Path) -> set[str]:
    """Return the full names of the modules that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(name: str) -> int | None:
    part = name.split(".")[1] if "." in name else ""
    return next((i for i, names in enumerate(LAYERS) if part in names), None)


@pytest.mark.parametrize("path", sorted(OURS), ids=lambda p: OURS[p])
def test_the_agent_imports_nothing_of_pytests_side_and_no_other_package(path):
    if not OURS[path].startswith("breakrank_agent"):
        assert not any(name == "torch" or name.startswith("torch.") for name in imports(path))
        return
    assert not any(name == "breakrank" or name.startswith("breakrank.") for name in imports(path))
    if "/hooks/" in OURS[path]:
        return
    import sys

    tops = {name.split(".")[0] for name in imports(path)} - {"breakrank_agent"}
    assert tops <= set(sys.stdlib_module_names), tops - set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", sorted(p for p in OURS if OURS[p].startswith("breakrank/")), ids=lambda p: OURS[p])
def test_a_module_imports_only_what_lies_below_it(path):
    mine = layer(OURS[path].replace("/", "."))
    if mine is None:
        assert OURS[path] == "breakrank/__init__", f"{OURS[path]} belongs to no layer: add it to LAYERS"
        return
    above = {name for name in imports(path) if name.startswith("breakrank.") and (layer(name) or 0) > mine}
    assert not above


def test_pytest_is_imported_by_the_plugin_alone():
    importers = {OURS[p] for p in OURS if any(n.split(".")[0] in ("pytest", "_pytest") for n in imports(p))}
    assert importers and all(name.startswith("breakrank/plugin/") for name in importers)


def test_docker_is_imported_by_its_runner_alone():
    importers = {OURS[p] for p in OURS if any(n.split(".")[0] == "docker" for n in imports(p))}
    assert importers == {"breakrank/runners/docker"}


def test_faults_import_no_framework():
    for path in (HARNESS / "breakrank_agent" / "faults").glob("*.py"):
        assert not any(n.split(".")[0] in ("torch", "tensorflow", "numpy") for n in imports(path))


@pytest.mark.parametrize("init", [name for name in sorted(OURS.values()) if name.endswith("/__init__")])
def test_each_package_is_among_those_that_are_installed(init):
    """An editable installation finds packages that are not listed; the wheel leaves them out."""
    package = init.removesuffix("/__init__").replace("/", ".")
    assert f'    "{package}",\n' in (HARNESS.parent / "pyproject.toml").read_text()
