"""The data that is laid into a job's folder: true to its source, drawn from the seed, readable with little."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from faker import Faker

from breakrank import BreakrankError
from breakrank.fixtures import data


def laid(folder: Path, seed: int = 0, ranks: int = 2) -> dict[str, Any]:
    """Lay digits into `folder`, and return the manifest."""
    data.lay("digits", folder, seed, ranks)
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def samples(folder: Path, shard: dict[str, Any]) -> list[bytes]:
    """Return the samples that lie in a shard's file."""
    content = (folder / shard["file"]).read_bytes()
    return [content[i : i + data.SAMPLE_BYTES] for i in range(0, len(content), data.SAMPLE_BYTES)]


def test_the_shipped_digits_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, labels = datasets.load_digits(return_X_y=True)
    assert [list(sample) for sample in data.digits()] == [
        [*row, label] for row, label in zip(pixels, labels, strict=True)
    ]


def test_the_shipped_file_carries_no_time() -> None:
    assert Path(data.__file__).with_name("digits.csv.gz").read_bytes()[4:8] == bytes(4)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_shards_are_of_one_size_and_share_no_row(tmp_path: Path, ranks: int) -> None:
    shards = laid(tmp_path, ranks=ranks)["shards"]
    rows = [row for shard in shards for row in shard["rows"]]
    assert [shard["rank"] for shard in shards] == list(range(ranks))
    assert {len(shard["rows"]) for shard in shards} == {1797 // ranks}
    assert len(set(rows)) == len(rows)


def test_a_shard_holds_the_samples_that_the_manifest_names(tmp_path: Path) -> None:
    for shard in laid(tmp_path)["shards"]:
        assert samples(tmp_path, shard) == [data.digits()[row] for row in shard["rows"]]
        assert shard["sha256"] == hashlib.sha256((tmp_path / shard["file"]).read_bytes()).hexdigest()


def test_hosts_and_files_are_told_apart(tmp_path: Path) -> None:
    manifest = laid(tmp_path, ranks=8)
    assert len({shard["file"] for shard in manifest["shards"]}) == 8
    assert len(set(manifest["hosts"])) == 8
    assert [shard["host"] for shard in manifest["shards"]] == manifest["hosts"]


def test_one_seed_lays_the_same_and_another_something_else(tmp_path: Path) -> None:
    Faker.seed(99)
    first = laid(tmp_path / "first", seed=4)
    Faker.seed(1)
    assert laid(tmp_path / "second", seed=4) == first
    other = laid(tmp_path / "third", seed=5)
    assert other["shards"][0]["rows"] != first["shards"][0]["rows"]
    assert other["shards"][0]["file"] != first["shards"][0]["file"]


def test_the_empty_name_lays_nothing(tmp_path: Path) -> None:
    data.lay("", tmp_path, 0, 2)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(BreakrankError, match=r"^unknown data 'digit'; known are digits, or '' for none$"):
        data.lay("digit", tmp_path, 0, 2)


def test_more_ranks_than_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BreakrankError, match="at most that many ranks, not 1798"):
        data.lay("digits", tmp_path, 0, 1798)


def test_laying_needs_neither_numpy_nor_a_framework() -> None:
    code = "import sys, breakrank.fixtures.data; print(*{'numpy', 'sklearn', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
