"""The documents keep up with the code: rooms, words, generated tables and links.

Method: the lists come from the code (the layers, the public names, the outcomes, the points), the documents are read as
text. A scenario in a folder of the user's changes no document.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.pages import PAGES, written
from test_layers import LAYERS

import breakrank
from breakrank.plan.catalogue import load_scenarios
from breakrank.verdict import Outcome
from breakrank_agent.protocol.trigger import POINTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ARCHITECTURE = DOCS / "architecture.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
#: Parts of a run and of a plan that people meet in messages, reports and run directories.
NOUNS = (
    "agent", "attempt", "blame", "cause", "child", "Conductor", "control", "deadline", "digest", "event", "family",
    "finding", "guest", "history", "hook", "land", "launcher", "log", "oracle", "patience", "payload", "placebo",
    "plan", "point", "policy", "program", "rank", "report", "run", "seed", "sequence", "session", "step", "strike",
    "supervisor", "trigger", "turn", "twin", "verdict", "view", "visit", "witness", "workdir", "zygote",
)  # fmt: skip
MOST_LINES = 150


def bold(path: Path) -> list[str]:
    """Return the words that a document prints bold, each of several in one mark by itself."""
    marked = re.findall(r"\*\*(.+?)\*\*", path.read_text())
    return [word.strip("`") for mark in marked for word in mark.split(", ")]


def entries() -> list[str]:
    """Return the words that the glossary defines, in its order."""
    return re.findall(r"^- \*\*(.+?)\*\*: ", (DOCS / "glossary.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("room", sorted({name for layers in LAYERS.values() for names in layers for name in names}))
def test_the_tour_has_a_paragraph_for_each_room(room):
    assert room in bold(ARCHITECTURE), f"docs/architecture.md has no paragraph that opens with **{room}**"


@pytest.mark.parametrize("word", sorted({*NOUNS, *map(str, Outcome), "point", "at", "BreakrankError"}))
def test_the_glossary_defines_each_noun_of_the_vocabulary(word):
    assert word in entries(), f"docs/glossary.md has no entry - **{word}**: …"


def test_the_glossary_defines_each_public_class_of_the_package():
    public = {name.lower() for name in breakrank.__all__ if isinstance(getattr(breakrank, name), type)}
    assert public <= {entry.lower() for entry in entries()}


def test_the_glossary_names_every_point():
    (entry,) = re.findall(r"^- \*\*point\*\*: (.*?)^- ", (DOCS / "glossary.md").read_text(), re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", entry)) == set(POINTS)


def test_the_glossary_has_each_word_once_and_in_order():
    words = [entry.lower().replace("-", " ") for entry in entries()]
    assert words == sorted(set(words))


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_says_what_the_code_says(name):
    assert (DOCS / name).read_text() == written(name), f"docs/{name} is not up to date: run `make docs`"


def test_a_scenario_of_the_users_own_changes_no_page(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from breakrank import SURVIVED, Case, Scenario\nSCENARIO = Scenario(cases=[Case('a', 'x:y', SURVIVED)])\n"
    )
    assert "mine" in load_scenarios([tmp_path])
    assert "`mine`" not in written("scenarios.md")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_are_there(path):
    prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose):
        name, _, anchor = target.partition("#")
        place = (path.parent / name).resolve() if name else path
        assert place.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(place), f"{place.name} has no heading for #{anchor}"


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short_and_names_the_commands_that_ci_runs():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= MOST_LINES
    assert all(f"make {target}" in text for target in ("setup", "scenario", "test"))


@pytest.mark.parametrize("path", sorted((DOCS / "decisions").glob("0*.md")), ids=lambda path: path.stem)
def test_a_decision_is_short_and_listed(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 40
    assert all(f"\n## {part}\n" in text for part in ("Context", "Decision", "Consequences"))
    assert f"]({path.name})" in (DOCS / "decisions" / "README.md").read_text()
