"""The bit table of docs/bits.md: some of its cells, measured again, and the page and picture, drawn again.

The cells are those that are far from a border between two results, so that another machine's rounding moves none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import bit_trials  # noqa: E402 - it lies beside the other measurements
import bits  # noqa: E402

SAVED = json.loads(bits.DATA.read_text())
#: Cells, each with the result that all of its trials have.
CLEAR = {
    bit_trials.Cell("float32", "weights", "bit", 31): "noticed by digest",
    bit_trials.Cell("float32", "momenta", "row", 22): "noticed by digest",
    bit_trials.Cell("float32", "received", "stuck", 31): "noticed by digest",
    bit_trials.Cell("float32", "gradients", "bit", 0): "masked",
    bit_trials.Cell("float32", "sent", "bit", 30): "not finite",
    bit_trials.Cell("float32", "sent", "row", 31): "silent",
    bit_trials.Cell("float32", "activations", "stuck", 31): "silent",
    bit_trials.Cell("float32", "saved", "bit", 31): "silent",
    bit_trials.Cell("bfloat16", "weights", "bit", 15): "noticed by digest",
}


@pytest.fixture(scope="module")
def measured():
    """Return the cells, measured here: once, in one pair of processes."""
    return bit_trials.measure(list(CLEAR))


@pytest.mark.parametrize("cell", CLEAR, ids=lambda cell: cell.key())
def test_a_cell_is_as_in_the_saved_table(measured, cell):
    assert measured[cell.key()] == SAVED["cells"][cell.key()]
    assert dict(zip(SAVED["results"], measured[cell.key()], strict=True))[CLEAR[cell]] == bit_trials.TRIALS


def test_the_saved_table_has_each_cell_and_all_of_its_trials():
    assert list(SAVED["cells"]) == [cell.key() for cell in bits.all_cells()]
    assert {sum(counts) for counts in SAVED["cells"].values()} == {bit_trials.TRIALS}


def test_page_and_picture_are_drawn_from_the_saved_table():
    table = SAVED["cells"]
    assert bits.PICTURE.read_text() == bits.picture(table)
    between = bits.PAGE.read_text().partition(bits.BEGIN)[2].partition(bits.END)[0]
    assert between.strip("\n") == "\n".join(bits.tables(SAVED, table)).strip("\n")


def test_the_picture_says_all_by_letters_and_has_colours_for_a_dark_page():
    picture = bits.PICTURE.read_text()
    assert "prefers-color-scheme: dark" in picture
    assert picture.count("<rect class") == picture.count('<text class="r') + 1
