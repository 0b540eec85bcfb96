"""Slips in a scenario file: values of the wrong kind, and programs that are not there, found without running any."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.verdict import Outcome, Record
from breakrank_agent.protocol.fault import Strike

_PROGRAM = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def _is_strikes(value: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(one, Strike) for one in value)


def _is_words(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, str) for one in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _are_records(kind: type) -> Callable[[Any], bool]:
    """Return the check of a mapping of records, whose keys are of a kind."""
    return lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(key, kind) and isinstance(record, Record) for key, record in value.items())
    )


#: Of each field of a case: the check, and the words for a right value.
_OF_A_CASE: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda v: isinstance(v, str) and v != "", "a text"),
    "program": (lambda v: isinstance(v, str), "a text as 'module:function'"),
    "control": (lambda v: isinstance(v, str), "a text as 'module:function'"),
    "needs": (_is_words, "a tuple of names, as in ('docker',)"),
    "ranks": (lambda v: v is None or _is_number(v), "a whole number from 1"),
    "strikes": (
        lambda v: v is None or _is_strikes(v),
        "a list of strikes, as in [faults.Kill() @ at(rank=1, step=3)]",
    ),
    "on": (_are_records(str), "records by runner, as in {'sandbox': DETECTED}"),
    "at": (_are_records(int), "records by number of ranks, as in {3: DETECTED}"),
}


def check_case(fields: Mapping[str, Any]) -> None:
    """Raise `BreakrankError` for a field of a case that is of the wrong kind."""
    case = fields["name"]
    if not isinstance(fields["expect"], Record):
        raise BreakrankError(f"the case {case!r} has expect={fields['expect']!r}, {_no_record(fields['expect'])}")
    for name, (right, words) in _OF_A_CASE.items():
        if not right(fields[name]):
            raise BreakrankError(f"the case {case!r} has {name}={fields[name]!r}; it has to be {words}")


def _no_record(value: Any) -> str:
    """Say of a value that stands in the place of a record what is meant."""
    names = [str(outcome) for outcome in Outcome]
    if callable(value) and getattr(value, "__name__", "").upper() in names:
        return f"a function; write {value.__name__}(oracle=...), or {value.__name__.upper()}"
    near = difflib.get_close_matches(str(value).upper(), names, n=1)
    if isinstance(value, str) and near:
        return f"a text; write expect={near[0]}, without quotes"
    return f"which is no record; records are {', '.join(names)}, and silent(oracle=...) and its like"


def check_scenario(fields: Mapping[str, Any], kind: type) -> None:
    """Raise `BreakrankError` for a field of a scenario that is of the wrong kind, and for a case that is there twice.

    `kind` is that of the cases.
    """
    if not (isinstance(fields["cases"], Sequence) and all(isinstance(case, kind) for case in fields["cases"])):
        raise BreakrankError("cases has to be a list of Case(...)")
    if not _is_words(fields["oracles"]):
        raise BreakrankError(f"oracles={fields['oracles']!r}; it has to be a list of names, as in ['race']")
    if not _is_strikes(fields["strikes"]):
        raise BreakrankError(f"strikes={fields['strikes']!r}; it has to be {_OF_A_CASE['strikes'][1]}")
    names = [case.name for case in fields["cases"]]
    doubled = [name for number, name in enumerate(names) if name in names[:number]]
    if doubled:
        raise BreakrankError(f"two cases are called {doubled[0]!r}")


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Say that a name is unknown, and which one comes nearest."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    return f"unknown {what} {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}")


def wrong_with_program(program: str, folder: Path) -> str:
    """Say what is wrong with the name of a program in a folder, empty if nothing is; no code of it is run.

    A module that is not in the folder may be installed. One that makes its names while it runs may have any.
    """
    if not _PROGRAM.fullmatch(program):
        return f"the program {program!r} is no 'module:function'"
    module, _, function = program.partition(":")
    path = folder.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")
    if not file.is_file():
        return (
            "" if _is_installed(module) else f"{unknown('module', module, _modules(folder))} (programs are in {folder})"
        )
    try:
        names = set(_names(ast.parse(file.read_bytes()).body))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return f"the program {program!r} cannot be read: {file}" + (f", line {line}: {error.args[0]}" if line else "")
    if function in names or names & {"*", "__getattr__"}:
        return ""
    return f"{unknown('function', function, sorted(n for n in names if not n.startswith('_')))} ({file})"


def _modules(folder: Path) -> list[str]:
    """Return the names of the modules in a folder of programs."""
    return sorted(path.stem for path in folder.glob("[!_]*.py"))


def _is_installed(module: str) -> bool:
    """Return whether an import would find the package of a module; nothing is imported."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements of a module bind; `*` for an import of all that another module has."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from ((name.asname or name.name).partition(".")[0] for name in statement.names)
        else:
            inner = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]
            inner += [handler.body for handler in getattr(statement, "handlers", [])]
            yield from (name for part in inner for name in _names(part))
            yield from (n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def line_of(path: Path, word: str, case: str = "") -> int:
    """Return the line of a scenario file that says `word`, in the call that makes a case if one is named; 1 if none."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return 1
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and case in _texts(node.args[:1])]
    for place in (*calls, tree):
        lines = [n.lineno for n in ast.walk(place) if isinstance(n, ast.Constant) and n.value == word]
        if lines:
            return min(lines)
    return calls[0].lineno if calls else 1


def _texts(nodes: Sequence[ast.expr]) -> list[object]:
    return [node.value for node in nodes if isinstance(node, ast.Constant)]
