"""No sentence opens with a free relative (*what, who, where, how, whether*): its subject is a thing with a name.

Docstrings, comments and documents are read, every sentence of them. CONTRIBUTING.md has the rule and examples.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELATIVES = "what|who|whose|whom|whoever|whatever|whichever|which|where|wherever|how|whether"
#: "That" opens a noun clause before a new subject ("That a rank has ended is known"), and else points ("That rank").
SUBJECTS = "a|an|the|it|they|we|you|he|she|there|this|these|those|nobody|somebody|no|each|every|its|their|both|all"
OPENS = re.compile(rf"(?i:{RELATIVES})\b(?!-)|(?i:that) (?:{SUBJECTS})\b")
#: A sentence begins after an end of another one. An abbreviation is none, as its next word is no capital.
BREAK = re.compile(r"""[.!?][)"'*_`]*\s+(?=["'(*_`]*[A-Z`])""")
#: The part of a document that a program writes: its words come from the code.
WRITTEN = re.compile(r"<!-- (?:matrix|claims|Written by .*) -->.*", re.DOTALL)


def places() -> list[str]:
    """Return the rooms, the other folders with Python files, and the documents."""
    rooms = {path.parent.relative_to(ROOT).as_posix() for path in files("harness")}
    return [*sorted(rooms), "scenarios", "fixtures", "tests", "documents"]


def files(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "build" not in path.parts)


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")])


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each docstring and comment of a Python file."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.lineno, str(first.value.value)
    yield from comments_of(source)


def comments_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each comment; lines of one comment that follow each other are one text."""
    began, last, column, said = 0, 0, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        words, (line, at) = token.string.lstrip("#:! "), token.start
        if line == last + 1 and at == column:
            said, last = f"{said} {words}", line
            continue
        yield began, said
        began, last, column, said = line, line, at, words
    yield began, said


def paragraphs_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each heading, paragraph, item and table cell of a document, without its code."""
    text = WRITTEN.sub("", path.read_text())
    fenced, began, said = False, 0, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        head = re.match(r"\s*(?:[-*] |#+ |\d+\. |\|)", line)
        if fenced or fence or head or not line.strip():
            yield began, said
            began, said = number, ""
            fenced ^= fence
            if not fenced and not fence and head:
                cells = line[head.end() :].split("|") if "|" in head[0] else [line[head.end() :]]
                yield from ((number, cell.strip()) for cell in cells[:-1])
                said = cells[-1].strip()
        else:
            began, said = (began, f"{said} {line.strip()}") if said else (number, line.strip())


def offenders(texts: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield (line, beginning) of each sentence that opens with a relative."""
    for line, text in texts:
        for paragraph in re.split(r"\n\s*\n|\n\s*[-*] ", text):
            for sentence in BREAK.split(" ".join(paragraph.split())):
                if OPENS.match(sentence.lstrip("\"'(*_- ")):
                    yield line, sentence[:70]


@pytest.mark.parametrize("place", places())
def test_each_sentence_opens_with_its_subject_or_a_verb(place):
    if place == "documents":
        found = [(path, *one) for path in documents() for one in offenders(paragraphs_of(path))]
    else:
        inside = files(place) if place in ("scenarios", "fixtures", "tests") else sorted((ROOT / place).glob("*.py"))
        found = [(path, *one) for path in inside for one in offenders(texts_of(path))]
    lines = [f"{path.relative_to(ROOT)}:{line}: {sentence}" for path, line, sentence in found]
    assert not lines, f"{len(lines)} sentences open with a relative:\n" + "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("What a rank is.", 1),
        ("A rank waits. Whether it moves is unknown.", 1),
        ("A rank waits.\n\n- How long it waits\n- That a rank waits is known.", 2),
        ("That rank waits. Nobody knows what it does, or whether it moves.", 0),
        ("Which-way edges are kept.", 0),
        ("Return whether it moves, e.g. what is next. `where` is a name.", 0),
    ],
)
def test_the_opening_word_of_each_sentence_is_found(text, count):
    assert len(list(offenders([(1, text)]))) == count
