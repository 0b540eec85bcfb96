"""A rank file keeps a rank's whole history, or, with a bound, its beginning and its latest events."""

from __future__ import annotations

import itertools

from breakrank.files.bounded import Folder
from breakrank.history.rank_file import Chronicle, read_chronicle
from breakrank_agent.protocol.log import encode


def written(path, keep, count):
    chronicle = Chronicle(path, keep)
    for number in range(count):
        chronicle.append(encode({"kind": "made up", "n": number}))
    chronicle.close()
    return chronicle, [event["n"] for event in read_chronicle(Folder(path.parent), path.name)]


def test_without_a_bound_all_of_it_is_kept(tmp_path):
    chronicle, kept = written(tmp_path / "rank-0.jsonl", 0, 1000)
    assert kept == list(range(1000)) and chronicle.left_out == 0


def test_with_a_bound_the_beginning_and_the_latest_are_kept_in_order(tmp_path):
    for count in (3, 50, 100, 333, 5000):
        folder = tmp_path / str(count)
        folder.mkdir()
        chronicle, kept = written(folder / "rank-0.jsonl", 2000, count)
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 2000
        assert len(kept) + chronicle.left_out == count
        assert kept == sorted(kept) and kept[:3] == [0, 1, 2] and kept[-1] == count - 1
        # Nothing is missing but one stretch in the middle.
        gaps = [after - before for before, after in itertools.pairwise(kept) if after - before > 1]
        assert gaps == ([chronicle.left_out + 1] if chronicle.left_out else [])


def test_a_history_that_was_never_begun_is_empty(tmp_path):
    assert list(read_chronicle(Folder(tmp_path), "rank-0.jsonl")) == []
