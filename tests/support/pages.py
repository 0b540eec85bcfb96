"""Write the parts of docs/ that come from the code: the tables of scenarios and of reports, and the list of options.

`make docs` runs this file. Each page keeps its text above the mark; all below the mark is written anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from breakrank.plan.catalogue import load_scenarios
from breakrank.plan.scenario import Scenario
from support.reported import field

ROOT = Path(__file__).parents[2]
MARK = "<!-- Written by `make docs`: edits below this line are lost. -->\n"
#: The title of our options in `pytest --help`, and the last line above those of the ini file.
GROUP = "Breakrank: distributed training, broken on purpose:"
INI = "[pytest] configuration options"


def scenarios() -> str:
    """Return a table for each family: scenario, cases by framework, means, and the first line of its file."""
    families: dict[str, list[Scenario]] = {}
    for scenario in load_scenarios().values():
        families.setdefault(scenario.family or "none", []).append(scenario)
    known = [scenario for members in families.values() for scenario in members]
    cases = sum(len(scenario.cases) for scenario in known)
    lines = [f"{len(known)} scenarios with {cases} cases in {len(families)} families."]
    for family, members in sorted(families.items()):
        lines += ["", f"## {family}", "", "| scenario | torch | TensorFlow | struck by | what goes wrong |"]
        lines += ["| --- | --- | --- | --- | --- |", *map(_row, members)]
    return "\n".join(lines) + "\n"


def _row(scenario: Scenario) -> str:
    counts = Counter(case.framework for case in scenario.cases)
    numbers = [str(counts[name] or "–") for name in ("torch", "tensorflow")]
    name = f"[`{scenario.name}`](../scenarios/{scenario.name}.py)"
    return f"| {' | '.join([name, *numbers, _means(scenario), scenario.summary])} |"


def _means(scenario: Scenario) -> str:
    """Return the names of the faults that strike in any case; a dash if the mistake lies in the programs."""
    strikes = [*scenario.strikes, *(strike for case in scenario.cases for strike in case.strikes or ())]
    return ", ".join(f"`{name}`" for name in sorted({strike.fault.name() for strike in strikes})) or "–"


def options() -> str:
    """Return the tables of the command line's options and of the ini file's, as pytest itself explains them."""
    lines = pytest_help().splitlines()
    begin = lines.index(GROUP) + 1
    ini = next(number for number, line in enumerate(lines) if line.startswith(INI))
    flags = _entries(lines[begin : lines.index("", begin)], r"  (--\S+)")
    values = [(name, text) for name, text in _entries(lines[ini:], r"  (\w+ \(\w+\)):") if name.startswith("scenario_")]
    return "\n".join([*_table("option", flags), "", *_table("ini option", values)]) + "\n"


def pytest_help() -> str:
    """Return what `pytest --help` prints, each entry on lines that are never wrapped."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "--help", "--noconftest"]
    environment = {**surroundings, "COLUMNS": "10000"}
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def _entries(lines: Iterable[str], begins: str) -> Iterator[tuple[str, str]]:
    """Yield (name, help) of each entry; the help of a long name stands on the next line."""
    name = ""
    for line in lines:
        head = re.match(begins, line)
        if head:
            name, line = head[1], line[head.end() :]
        if name and line.strip():
            yield name, line.strip()
            name = ""


def _table(title: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    rows = [f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in entries]
    return [f"| {title} | meaning |", "| --- | --- |", *rows]


#: Each page below docs/, and the function that writes all of it below the mark.
PAGES: dict[str, Callable[[], str]] = {"scenarios.md": scenarios, "field.md": field, "options.md": options}


def written(name: str) -> str:
    """Return the page `name` as it should be: its own text, the mark, and the text that the code gives."""
    text = (ROOT / "docs" / name).read_text()
    return f"{text.partition(MARK)[0]}{MARK}\n{PAGES[name]()}"


if __name__ == "__main__":
    for page in PAGES:
        (ROOT / "docs" / page).write_text(written(page))
