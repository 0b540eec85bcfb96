"""The bit table: what comes of a wrong bit, by its place and number, from real training, as docs/bits.md.

`make bits` runs all trials of tests/bench/bit_trials.py, some minutes, and writes docs/bits.json (the counts),
docs/bits.svg (the picture) and the tables of docs/bits.md between its markers. `bits.py --draw` writes the last two
anew.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from bit_trials import MODELS, PLACES, RESULTS, TRIALS, Cell, measure

from breakrank_agent.protocol.bits import field_of, field_with, width_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE, DATA, PICTURE = DOCS / "bits.md", DOCS / "bits.json", DOCS / "bits.svg"
BEGIN, END = "<!-- bits -->", "<!-- /bits -->"
DTYPES = ("float32", "bfloat16")
LETTERS = list(RESULTS.values())
#: The picture: the size of a cell, and of the column of names.
WIDE, HIGH, NAMES = 22, 17, 150
#: Background and text of a result, for a light page and a dark one.
COLOURS = {
    "=": (("#e8eef4", "#24313d"), ("#2b3640", "#c9d6e2")),
    "D": (("#9cc7ec", "#06263f"), ("#1f5f93", "#f0f7fd")),
    "B": (("#a9dcb4", "#0a3314"), ("#2c7a41", "#f1fbf3")),
    "N": (("#f6d584", "#3d2a00"), ("#8a6a12", "#fff8e3")),
    "S": (("#c8452f", "#ffffff"), ("#e0664f", "#1c0400")),
}

#: For each cell, the number of trials by result.
Table = Mapping[str, Sequence[int]]


def all_cells() -> list[Cell]:
    """Return all cells, in the order of the table."""
    return [
        Cell(dtype, place, model, bit)
        for dtype in DTYPES
        for place in PLACES
        for model in MODELS
        for bit in reversed(range(width_of(dtype)))
    ]


def letter_of(counts: Sequence[int]) -> str:
    """Return the letter of the most frequent result; of several, the worst."""
    return max(zip(counts, range(len(LETTERS)), LETTERS, strict=True))[2]


def text_of(counts: Sequence[int]) -> str:
    """Return a cell as text: the most frequent result, and its number of trials if it was not all of them."""
    most = max(counts)
    return letter_of(counts) + (str(most) if most < sum(counts) else "")


def line(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def rows_of(table: Table, dtype: str) -> list[tuple[str, str, list[Sequence[int]]]]:
    """Return the rows of a dtype: place, model, and the counts from the highest bit on."""
    bits = list(reversed(range(width_of(dtype))))
    return [
        (place, model, [table[Cell(dtype, place, model, bit).key()] for bit in bits])
        for place in PLACES
        for model in MODELS
    ]


def by_bit(table: Table, dtype: str) -> list[str]:
    """Return the table of one dtype."""
    bits = list(map(str, reversed(range(width_of(dtype)))))
    lines = [line(["place", "model", *bits]), line(["---"] * (2 + len(bits)))]
    return lines + [line([place, model, *map(text_of, counts)]) for place, model, counts in rows_of(table, dtype)]


def by_field(table: Table) -> list[str]:
    """Return the results of one flipped bit by place and field, as shares of the trials."""
    lines = [line(["dtype", "place", "field", "trials", *RESULTS]), line(["---"] * (4 + len(RESULTS)))]
    for dtype in DTYPES:
        for place in PLACES:
            for field in ("sign", "exponent", "mantissa"):
                first, size = field_of(dtype, field)
                each = [table[Cell(dtype, place, "bit", bit).key()] for bit in range(first, first + size)]
                sums = [sum(counts) for counts in zip(*each, strict=True)]
                shares = [f"{100 * count / sum(sums):.0f} %" for count in sums]
                lines.append(line([dtype, place, field, str(sum(sums)), *shares]))
    return lines


def picture(table: Table) -> str:
    """Return the picture: a square with a letter for each cell, and the letters' meaning."""
    drawn, top = [], 40
    for dtype in DTYPES:
        drawn += panel(table, dtype, top)
        top += HIGH * (len(PLACES) * len(MODELS) + 4)
    left = 10
    for result, letter in RESULTS.items():
        drawn += [square(letter, left, top), words(result, left + WIDE + 6, top + 13)]
        left += WIDE + 40 + 7 * len(result)
    wide, high = NAMES + 32 * WIDE + 10, top + 30
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
            'role="img" aria-labelledby="t d" font-family="ui-monospace, monospace" font-size="11">',
            '<title id="t">The bit table</title>',
            '<desc id="d">Each square is one cell of the tables on this page: its letter is the most frequent result.'
            "</desc>",
            f"<style>{style()}</style>",
            f'<rect class="page" width="{wide}" height="{high}"/>',
            words("Rank 1 is struck at step 3: the most frequent result of each bit", 10, 20, "bold"),
            *drawn,
            "</svg>",
            "",
        ]
    )


def panel(table: Table, dtype: str, top: int) -> list[str]:
    """Return the squares of one dtype, with the numbers and fields of its bits above."""
    drawn = [words(dtype, 10, top + 12, "bold")]
    for column, bit in enumerate(reversed(range(width_of(dtype)))):
        left = NAMES + column * WIDE
        drawn.append(words(str(bit), left + 5, top + 29))
        field = field_with(dtype, bit)
        if bit == sum(field_of(dtype, field)) - 1:
            drawn.append(words(field if field != "sign" else "±", left + 5, top + 12))
    for row, (place, model, counts) in enumerate(rows_of(table, dtype)):
        at = top + 34 + row * HIGH
        if model == MODELS[0]:
            drawn.append(words(place, 10, at + 12))
        drawn.append(words(model, 100, at + 12))
        drawn += [square(letter_of(one), NAMES + column * WIDE, at) for column, one in enumerate(counts)]
    return drawn


def square(letter: str, left: int, top: int) -> str:
    """Return a square of a result with its letter."""
    name = f"r{LETTERS.index(letter)}"
    return (
        f'<rect class="{name}" x="{left}" y="{top}" width="{WIDE - 1}" height="{HIGH - 1}"/>'
        f'<text class="{name}" x="{left + 7}" y="{top + 12}">{letter}</text>'
    )


def words(text: str, left: int, top: int, weight: str = "normal") -> str:
    """Return a line of text."""
    return f'<text class="w" x="{left}" y="{top}" font-weight="{weight}">{text}</text>'


def style() -> str:
    """Return the colours of a light page, and those of a dark one."""
    sheets = []
    for dark, page, ink in ((0, "#ffffff", "#222222"), (1, "#1b1f24", "#dddddd")):
        rules = [f".page{{fill:{page}}}", f".w{{fill:{ink}}}"]
        for number, letter in enumerate(LETTERS):
            back, front = COLOURS[letter][dark]
            rules += [f"rect.r{number}{{fill:{back}}}", f"text.r{number}{{fill:{front}}}"]
        sheets.append("".join(rules))
    return f"{sheets[0]}@media (prefers-color-scheme: dark){{{sheets[1]}}}"


def tables(saved: Mapping[str, object], table: Table) -> list[str]:
    """Return what lies between the markers of the page."""
    lines = [f"Measured with {saved['software']}: {len(table) * TRIALS} trials, {TRIALS} a cell.", ""]
    lines += ["![The most frequent result of each cell](bits.svg)", ""]
    lines += ["## One flipped bit, by place and field", "", *by_field(table), ""]
    for dtype in DTYPES:
        lines += [f"## Each bit of {dtype}", "", *by_bit(table, dtype), ""]
    return lines


def write(saved: Mapping[str, object], table: Table) -> None:
    """Write the picture and the page."""
    PICTURE.write_text(picture(table))
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([f"{head}{BEGIN}", "", *tables(saved, table), END]) + rest.partition(END)[2])


def main(drawing: bool) -> None:
    """Run the trials, unless the saved ones are to be drawn, and write all three files."""
    if not drawing:
        software = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
        cells = all_cells()
        found = measure(cells)
        rows = ",\n".join(f"{json.dumps(cell.key())}: {json.dumps(found[cell.key()])}" for cell in cells)
        head = json.dumps({"software": software, "results": list(RESULTS)})[:-1]
        DATA.write_text(f'{head}, "cells": {{\n{rows}\n}}}}\n')
    saved = json.loads(DATA.read_text())
    write(saved, saved["cells"])


if __name__ == "__main__":
    main("--draw" in sys.argv[1:])
