"""The table of verdicts: on a wide terminal a line a case, else its outcome, name and finding, and a line below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from breakrank.files.bounded import plain
from breakrank.report.layout import cells, pad, shorten, wrapped
from breakrank.report.terminal import Row
from breakrank.runners import PLAIN

#: From this width on a case is one line, if at least so many cells are left for its sentence.
_WIDE, _FOR_A_SENTENCE = 110, 48
#: A sentence that nothing has to be said by.
_NOTHING = "no rank reported and no oracle objects"


class Part(NamedTuple):
    """A piece of a line, and its state: `good`, `bad`, `void`, or none."""

    text: str
    state: str = ""


def verdict_table(rows: Sequence[Row], width: int) -> list[list[Part]]:
    """Return the lines of the table, each at most `width` cells wide, in parts.

    A row that is as recorded does not say so; another one says what is on record.
    """
    ordered = sorted(rows, key=lambda row: (row.scenario, row.case))
    columns = _columns(ordered)
    left = width - sum(max(cells(c) for c in column) + 2 for column in columns)
    if width >= _WIDE and left >= _FOR_A_SENTENCE:
        return _wide(ordered, columns, left)
    return [line for row in ordered for line in _narrow(row, ordered, width)]


def _columns(rows: Sequence[Row]) -> list[list[str]]:
    """Return the columns of the wide table but the last one, each with its heading; one that says nothing is left."""
    every = [
        ["outcome", *(row.outcome or "not tested" for row in rows)],
        ["case", *(_name(row) for row in rows)],
        ["runner", *(row.runner if row.runner != PLAIN else "" for row in rows)],
        ["digest", *(row.digest[:8] for row in rows)],
        ["repeat", *(row.repeats for row in rows)],
        ["s", *(f"{row.seconds:.1f}" if row.outcome else "" for row in rows)],
    ]
    return [column for column in every if any(column[1:])]


def _name(row: Row) -> str:
    return plain(f"{row.scenario}::{row.case}")


def _wide(rows: Sequence[Row], columns: list[list[str]], left: int) -> list[list[Part]]:
    """Return a line a case, with its sentence in what is left of the width; a sentence that matters has more lines."""
    padded = [[pad(cell, max(map(cells, column))) for cell in column] for column in columns]
    indent = " " * sum(cells(column[0]) + 2 for column in padded)
    lines = [[Part("  ".join([*(column[0] for column in padded), "finding"]))]]
    for number, row in enumerate(rows, 1):
        first, *more = _sentences(row, left)
        before = "".join(f"  {column[number]}" for column in padded[1:])
        lines.append([Part(padded[0][number], state(row)), Part(f"{before}  {first}".rstrip())])
        lines += [[Part(f"{indent}{line}")] for line in more]
    return lines


def _narrow(row: Row, rows: Sequence[Row], width: int) -> Iterator[list[Part]]:
    """Yield the outcome, the case and the finding; then, indented, the sentence, if there is more to say."""
    outcome = pad(row.outcome or "not tested", max(cells(one.outcome or "not tested") for one in rows))
    shown = [
        _name(row),
        row.repeats,
        row.runner if row.runner != PLAIN else "",
        row.finding,
    ]
    rest = shorten("".join(f"  {plain(one)}" for one in shown if one), width - cells(outcome)).rstrip()
    yield [Part(outcome, state(row)), Part(rest)]
    for line in _sentences(row, width - 2):
        if line:
            yield [Part(f"  {line}")]


def _sentences(row: Row, width: int) -> list[str]:
    """Return the sentence of a row as lines: one, cut, where all is as recorded; all of it where something is not."""
    also = f" (also {row.also})" if row.also else ""
    said = plain("" if row.sentence == _NOTHING and not also else (row.sentence or "there is no verdict") + also)
    if row.as_recorded is False:
        return wrapped(f"on record {row.recorded}" + (f"; {said}" if said else ""), width, hang=0)
    if row.passed:
        return [shorten(said, width)]
    return wrapped(said, width, hang=0)


def state(row: Row) -> str:
    """Return the state of a row, which decides its colour."""
    return ("good" if row.passed else "bad") if row.tested else "void"
