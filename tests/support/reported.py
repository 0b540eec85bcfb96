"""Public reports of these faults, and the cases that show them: the table of docs/field.md.

`reports.csv` has the reports. A scenario cites one in its docstring, after "Seen in the wild:", as `owner/name#7`, or
`owner/name#PR7` for a pull request. The parenthesis behind a citation may name cases; if it names none, the first
broken case of each framework shows the report.
"""

from __future__ import annotations

import ast
import csv
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakrank.plan.catalogue import load_scenarios, packaged_programs
from breakrank.plan.scenario import Case, Scenario
from breakrank.verdict import Outcome

REPORTS = Path(__file__).with_name("reports.csv")
CITED = "Seen in the wild:"
#: A public report: the repository, then the number of an issue or, after PR, of a pull request.
REPORT = re.compile(r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*#(?:PR)?[1-9]\d*")
#: The start of the docstring of a program without a guard.
BROKEN = "Broken"


@dataclass(frozen=True)
class Report:
    """A public report: its name, its kind, one sentence of what happened, and the reason if no case shows it."""

    report: str
    kind: str
    what: str
    without: str

    @property
    def link(self) -> str:
        """Return the name as a link to the report."""
        repository, number = self.report.split("#")
        place = f"pull/{number[2:]}" if number.startswith("PR") else f"issues/{number}"
        return f"[{self.report}](https://github.com/{repository}/{place})"


@functools.cache
def reports() -> Sequence[Report]:
    """Return all reports, in the order of the file."""
    with REPORTS.open(newline="") as lines:
        return [Report(**row) for row in csv.DictReader(lines)]


def citations(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield (report, remark) of each citation of a docstring; the remark is the next parenthesis, or empty."""
    text = " ".join(docstring.partition(CITED)[2].split())
    waiting: list[str] = []
    for found in re.finditer(rf"({REPORT.pattern})|\(([^)]*)\)", text):
        if found[1]:
            waiting.append(found[1])
            continue
        yield from ((report, found[2]) for report in waiting)
        waiting = []
    yield from ((report, "") for report in waiting)


def cases_of(scenario: Scenario, remark: str) -> list[Case]:
    """Return the cases that a remark names, or else the first broken one of each framework, or the first of all."""
    names = re.findall(r"`([^`]+)`", remark)
    first: dict[str, Case] = {}
    for case in scenario.cases:
        if not case.sound:
            first.setdefault(case.framework, case)
    return [case for case in scenario.cases if case.name in names] or list(first.values()) or [scenario.cases[0]]


@functools.cache
def shown() -> dict[str, list[tuple[Scenario, Case]]]:
    """Return the cases that show each report, by its name."""
    cases: dict[str, list[tuple[Scenario, Case]]] = {}
    for scenario in load_scenarios().values():
        for report, remark in citations(docstring_of(scenario)):
            cases.setdefault(report, []).extend((scenario, case) for case in cases_of(scenario, remark))
    return cases


def docstring_of(scenario: Scenario) -> str:
    """Return the docstring of a scenario's file."""
    return ast.get_docstring(ast.parse(scenario.path.read_text())) or ""


def field() -> str:
    """Return a table for each kind of report: the report, what happened, its cases, their outcomes, who noticed."""
    known = reports()
    count = sum(report.report in shown() for report in known)
    lines = [f"{len(known)} reports, of which {count} have a case."]
    for kind in dict.fromkeys(report.kind for report in known):
        lines += ["", f"## {kind}", "", "| report | what happened | case | framework | outcome | noticed by |"]
        lines += ["| --- | --- | --- | --- | --- | --- |", *(_row(one) for one in known if one.kind == kind)]
    return "\n".join(lines) + "\n"


def _row(report: Report) -> str:
    cases = shown().get(report.report, [])
    if not cases:
        return f"| {report.link} | {report.what} | none: {report.without} | – | – | – |"
    columns = zip(*(_cells(scenario, case) for scenario, case in cases), strict=True)
    return f"| {' | '.join([report.link, report.what, *map('<br>'.join, columns)])} |"


def _cells(scenario: Scenario, case: Case) -> tuple[str, str, str, str]:
    framework = {"tensorflow": "TensorFlow"}.get(case.framework, case.framework)
    name = f"[`{scenario.name}`](../scenarios/{scenario.name}.py) `{case.name}`"
    return name, framework, str(case.expect.outcome), noticed(case)


def noticed(case: Case) -> str:
    """Say who notices the fault of a case: the framework, the user's guard, or an oracle of ours by name."""
    record = case.expect
    by = [f"our oracle `{record.oracle}`"] * bool(record.oracle)
    if record.outcome is Outcome.DETECTED:
        by.insert(0, "the user's guard" if guards(case.program) else "the framework")
    return ", ".join(by) or ("the kernel" if record.outcome is Outcome.CRASHED else "nobody: no harm was done")


def guards(program: str) -> bool:
    """Return whether a program ends itself by code of its own that no broken program of the same module has.

    It does so by an exception that it raises, or by `os._exit`.
    """
    module, _, function = program.partition(":")
    tree = ast.parse((packaged_programs() / f"{module}.py").read_text())
    parts = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    broken = [name for name, part in parts.items() if (ast.get_docstring(part) or "").startswith(BROKEN)]
    others = set().union(*(_reached(parts, name) for name in broken))
    return any(_ends(parts[name]) for name in _reached(parts, function) - others)


def _reached(parts: dict[str, ast.FunctionDef | ast.ClassDef], function: str) -> set[str]:
    """Return the names of all parts of a module that a function leads to, its own among them."""
    reached, ahead = set(), [function]
    while ahead:
        name = ahead.pop()
        if name in parts and name not in reached:
            reached.add(name)
            ahead += [node.id for node in ast.walk(parts[name]) if isinstance(node, ast.Name)]
    return reached


def _ends(part: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Attribute) and node.attr == "_exit")
        for node in ast.walk(part)
    )
