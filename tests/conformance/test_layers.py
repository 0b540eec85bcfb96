"""Imports go one way, and the big packages are imported in one place each."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "harness"
OURS = {path: path.relative_to(HARNESS).with_suffix("").as_posix() for path in HARNESS.rglob("*.py")}

#: From below to above. A room imports rooms of lower layers only, never one of its own layer. A root module is a room.
LAYERS = {
    "breakrank": [
        ("causes", "errors", "schemas"),
        ("files", "memory", "verdict"),
        ("plan", "host", "history"),
        ("analysis", "live", "nodes"),
        ("witnesses", "runners", "oracles"),
        ("doctor", "judge", "conductor", "deputy"),
        ("runs",),
        ("report",),
        ("timeline",),
        ("cli", "plugin"),
        ("commands",),
        ("__main__",),
    ],
    "breakrank_agent": [
        ("kernel",),
        ("protocol",),
        ("faults",),
        ("plan",),
        ("schedules",),
        ("agent",),
        ("hooks",),
        ("hooks/python",),
        ("hooks/torch", "hooks/tensorflow"),
        ("start",),
    ],
}
#: Rooms of the agent that pytest's side imports. The package itself is looked up where it is staged for ranks.
SHARED = {"kernel", "protocol", "faults", "plan", "schedules"}
#: Modules that are in no layer: the faces of the packages, and the module that runs the commands of all rooms.
FACES = {"breakrank/__init__", "breakrank/__main__", "breakrank_agent/__init__"}
#: The most modules that lie at the root of a package.
AT_ROOT = 8


@pytest.mark.parametrize("package", LAYERS)
def test_the_picture_of_the_architecture_names_each_room(package: str) -> None:
    words = set(re.findall(r"[a-z_]+", (HARNESS.parent / "docs" / "architecture.svg").read_text()))
    rooms = {room.rpartition("/")[2] for layer in LAYERS[package] for room in layer}
    assert rooms - words - {"__main__"} == set()


def imports(path: Path) -> set[str]:
    """Return the full names of the modules that a file imports, at any depth; names of a package count as modules."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(found: set[str]) -> set[str]:
    """Return the names that are imported, less the packages of which only modules are imported."""
    ours = {name.replace("/", ".") for name in OURS.values()}
    packages = {name.rpartition(".")[0] for name in found & ours}
    return {name for name in found if name not in packages or not name.count(".")}


def room(name: str) -> tuple[str, str] | None:
    """Return the package and the room of a module; None for the face of a package, or a module that is not ours."""
    package, _, rest = name.replace("/", ".").partition(".")
    if package not in LAYERS:
        return None
    known = [one for names in LAYERS[package] for one in names]
    inside = [one for one in known if f"{rest}.".startswith(one.replace("/", ".") + ".")]
    return (package, max(inside, key=len)) if inside else None


def layer(where: tuple[str, str]) -> int:
    package, name = where
    return next(number for number, names in enumerate(LAYERS[package]) if name in names)


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


@pytest.mark.parametrize("path", sorted(OURS), ids=lambda p: OURS[p])
def test_a_room_imports_only_rooms_of_lower_layers(path):
    mine = room(OURS[path])
    if OURS[path] in FACES:
        return
    assert mine is not None, f"{OURS[path]} belongs to no layer: add its room to LAYERS"
    for name in imports(path):
        other = room(name)
        if other is not None and other[0] == mine[0] and other != mine:
            assert layer(other) < layer(mine), f"{OURS[path]} imports {name}"


@pytest.mark.parametrize("path", sorted(p for p in OURS if OURS[p].startswith("breakrank/")), ids=lambda p: OURS[p])
def test_pytests_side_imports_only_what_the_agent_shares(path):
    others = {room(name) for name in imports(path)} - {None}
    assert {name for package, name in others if package == "breakrank_agent"} <= SHARED


@pytest.mark.parametrize(("package", "name"), [(p, n) for p, layers in LAYERS.items() for ns in layers for n in ns])
def test_each_room_of_the_layers_is_there(package, name):
    place = HARNESS / package / name
    assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


@pytest.mark.parametrize("package", LAYERS)
def test_few_modules_lie_at_the_root(package):
    assert len(list((HARNESS / package).glob("*.py"))) <= AT_ROOT


def test_no_modules_import_each_other_in_a_circle():
    names = {n.replace("/", ".").removesuffix(".__init__"): p for p, n in OURS.items() if n not in FACES}
    needs = {name: modules(imports(path)) & names.keys() - {name} for name, path in names.items()}
    left = dict(needs)
    while free := {name for name, those in left.items() if not those & left.keys()}:
        left = {name: those for name, those in left.items() if name not in free}
    assert not left, f"a circle among {', '.join(sorted(left))}"


def test_pytest_is_imported_by_the_plugin_alone():
    importers = {OURS[p] for p in OURS if any(n.split(".")[0] in ("pytest", "_pytest") for n in imports(p))}
    assert importers and all(name.startswith("breakrank/plugin/") for name in importers)


def test_docker_is_imported_by_its_runner_alone():
    importers = {OURS[p] for p in OURS if any(n.split(".")[0] == "docker" for n in imports(p))}
    assert importers and all(name.startswith("breakrank/runners/docker/") for name in importers)
    # The registry of runners imports these two also if docker's package is missing.
    assert not importers & {"breakrank/runners/docker/__init__", "breakrank/runners/docker/endpoint"}


def test_faults_import_no_framework():
    for path in (HARNESS / "breakrank_agent" / "faults").glob("*.py"):
        assert not any(n.split(".")[0] in ("torch", "tensorflow", "numpy") for n in imports(path))


@pytest.mark.parametrize("init", [name for name in sorted(OURS.values()) if name.endswith("/__init__")])
def test_each_package_is_among_those_that_are_installed(init):
    """An editable installation finds packages that are not listed; the wheel leaves them out."""
    package = init.removesuffix("/__init__").replace("/", ".")
    assert f'    "{package}",\n' in (HARNESS.parent / "pyproject.toml").read_text()
