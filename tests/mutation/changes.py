"""Say in one line of code what a mutant changes: mutmut's numbers move with the code, and such a line does not."""

from __future__ import annotations

import ast
import difflib
import functools
import itertools
import re
from pathlib import Path

#: The number of letters that are shown before and after the part that differs.
_CONTEXT = 40

#: mutmut's name of a mutant: module, method's class if any, function, number.
_NAME = re.compile(r"(?P<module>[\w.]+)\.(?P<mangled>x(?:_|ǁ(?P<cls>\w+)ǁ)(?P<function>\w+))__mutmut_\d+")


def changes(source: Path, mutant: str) -> str:
    """Return `module.function: old code => new code` of a mutant; `source` is the folder of mutated packages."""
    found = _NAME.fullmatch(mutant)
    assert found is not None, mutant
    code = _functions(source.joinpath(*found["module"].split(".")).with_suffix(".py"))
    before = _lines(code[f"{found['mangled']}__mutmut_orig"])
    after = _lines(code[mutant.rpartition(".")[2]])
    old, new = [], []
    for line in difflib.ndiff(before, after):
        if line.startswith("- "):
            old.append(line[2:].strip())
        elif line.startswith("+ "):
            new.append(line[2:].strip())
    where = ".".join(filter(None, (found["module"], found["cls"], found["function"])))
    return f"{where}: {' => '.join(_around(' '.join(old), ' '.join(new)))}"


def _around(old: str, new: str) -> tuple[str, str]:
    """Return what differs between two lines, with a little of what stands around it."""
    same = _alike(old, new)
    after = _alike(old[same:][::-1], new[same:][::-1])
    begin = max(0, same - _CONTEXT)
    dropped = max(0, after - _CONTEXT)
    return old[begin : len(old) - dropped], new[begin : len(new) - dropped]


def _alike(one: str, other: str) -> int:
    """Return how many letters two lines have in common from their beginnings on."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _lines(function: ast.FunctionDef) -> list[str]:
    """Return the lines of a function as they would be written without line breaks."""
    return [line for part in function.body for line in ast.unparse(part).splitlines()]


@functools.cache
def _functions(module: Path) -> dict[str, ast.FunctionDef]:
    """Return the mutants of a module, and the functions as they were."""
    nodes = ast.walk(ast.parse(module.read_text()))
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name}
