"""The archive that is sent to a node: the deputy, the modules of ours that it imports, and the agent for the ranks.

It needs nothing but Python there, so that what it imports is found here, by reading the imports, and is our own.
"""

from __future__ import annotations

import ast
import functools
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import breakrank
import breakrank_agent
from breakrank_agent.protocol.entry import SITECUSTOMIZE

#: The module that runs on the node.
MAIN = "breakrank.deputy.guard"
#: Packages of which the modules are found in their folder while they run.
_REGISTRIES = ("breakrank.witnesses", "breakrank.host.blocked")
_ROOTS = {"breakrank": Path(breakrank.__path__[0])}
#: A file of an archive has a time; ours have none, so that equal code is an equal archive.
_EPOCH = (1980, 1, 1, 0, 0, 0)


@functools.cache
def archive() -> bytes:
    """Return the archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as files:
        for name, text in sorted({**_deputy(), **_agent(), "sitecustomize.py": SITECUSTOMIZE.encode()}.items()):
            files.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return data.getvalue()


@functools.cache
def modules() -> dict[str, Path]:
    """Return the modules of pytest's side that a deputy imports, by name, with their files."""
    found: dict[str, Path] = {}
    queue = [MAIN]
    while queue:
        name = queue.pop()
        path = _file_of(name)
        if path is None or name in found:
            continue
        found[name] = path
        queue += _imports(path)
        if name in _REGISTRIES:
            queue += [f"{name}.{one.stem}" for one in path.parent.glob("*.py") if one.stem != "__init__"]
    return found


def _deputy() -> dict[str, bytes]:
    """Return the files of the deputy. Of packages that nobody asks for anything, only the folder is needed."""
    files: dict[str, bytes] = {}
    for name, path in modules().items():
        stem = name.replace(".", "/")
        files[f"{stem}/__init__.py" if path.name == "__init__.py" else f"{stem}.py"] = path.read_bytes()
        for parent in Path(stem).parents:
            if parent != Path():
                files.setdefault(f"{parent}/__init__.py", b"")
    return files


def _agent() -> dict[str, bytes]:
    root = Path(breakrank_agent.__path__[0])
    return {f"breakrank_agent/{path.relative_to(root)}": path.read_bytes() for path in root.rglob("*.py")}


def _file_of(name: str) -> Path | None:
    """Return the file of a module of pytest's side; None if it is none, or the face of the package."""
    top, _, rest = name.partition(".")
    if top not in _ROOTS or not rest:
        return None
    path = _ROOTS[top] / rest.replace(".", "/")
    if (path / "__init__.py").is_file():
        return path / "__init__.py"
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else None


def _imports(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, but for those that a type checker alone needs."""
    queue: list[ast.AST] = [ast.parse(path.read_text())]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            queue += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in below if _file_of(name) is not None)
            if not all(_file_of(name) is not None for name in below):
                yield node.module
        queue += ast.iter_child_nodes(node)
