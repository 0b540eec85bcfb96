"""`RotFile` names a word and a bit that there is."""

from __future__ import annotations

import os

import pytest

from breakrank_agent import faults
from breakrank_agent.protocol.trigger import PlanError


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"share": 1.1}, "from 0 to 1, not 1.1"), ({"share": -0.1}, "not -0.1"), ({"bit": 32}, "bits 0 to 31, not 32")],
)
def test_another_place_is_refused(wrong, said):
    with pytest.raises(PlanError, match=said):
        faults.RotFile(**wrong)


@pytest.mark.parametrize(("share", "place"), [(0.0, 0), (0.5, 8), (1.0, 16)])
def test_the_word_lies_at_its_share_of_the_file(tmp_path, share, place):
    """The last bytes of a file that has no whole number of words are in no word."""
    (tmp_path / "f").write_bytes(bytes(22))
    file = os.open(tmp_path / "f", os.O_RDWR)
    faults.RotFile(share=share, bit=31)._flip(file, os.fstat(file))
    os.close(file)
    content = bytearray(22)
    content[place + 3] = 0x80
    assert (tmp_path / "f").read_bytes() == bytes(content)
