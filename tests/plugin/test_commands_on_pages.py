"""Each command that a page shows is one that works: it is taken as it stands, in a folder with the files it names.

A command of pytest runs without its ranks (`--scenario-dry-run`); other tests start those. A command of `breakrank` is
parsed, and a target of make is looked up.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from breakrank.__main__ import _parser, _spelled_out

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Values for what a page leaves to its reader.
LEFT_OPEN = {"PID": "1", "RUN": "run", "NAME=x": "NAME=kill"}
#: Commands that need more than files: a saved run, an engine with these images, a runner that a recipe makes.
ELSEWHERE = {
    "--scenario-replay": "tests/plugin/test_real.py replays a run",
    "--scenario-image": "tests/conformance and tests/e2e run in containers",
    "--scenario-runner=traced": "CONTRIBUTING.md shows how this runner is written",
}
_COMMAND = re.compile(r"^(?:\$ )?((?:pytest|breakrank|make) \S.*)$", re.MULTILINE)


def commands():
    """Yield the page and the text of each command in a block of code, once a page."""
    for page in PAGES:
        blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for text in dict.fromkeys(found for block in blocks for found in _COMMAND.findall(block)):
            yield pytest.param(text, id=f"{page.name}: {text[:60]}")


def words_of(text):
    """Return the words of a command, without its comment, with a value for what is left open."""
    words = shlex.split(text, comments=True)
    return [LEFT_OPEN.get(word, word) for word in words]


@pytest.mark.parametrize("text", list(commands()))
def test_a_command_on_a_page_works(project, text):
    program, *words = words_of(text)
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[0] in targets
    elif program == "pytest":
        if not any(word.startswith(option) for word in words for option in ELSEWHERE):
            for name in ("train.py", "driver.py"):
                project.file(name, "import torch\n")
            result = project.pytest(*words, "--scenario-dry-run")
            assert result.ret == 0, result.outlines
    else:
        assert _parser().parse_args(_spelled_out(words)).command == words[0]


def test_commands_are_found_on_the_pages():
    assert len(list(commands())) > 30
