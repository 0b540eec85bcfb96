"""A shard that was exported anew holds the same samples in another form, and its schema says so truthfully."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from breakrank import faults
from breakrank.fixtures import data
from breakrank.witnesses.data import Shard
from breakrank_agent.faults.data import CHANGES, decode
from breakrank_agent.kernel.rooted import WorkingFolder
from breakrank_agent.protocol.trigger import PlanError


@pytest.fixture
def rank(tmp_path: Path) -> Any:
    """Rank 1 of two, as a fault sees it, in a folder with shards of digits."""
    data.lay("digits", tmp_path, 0, 2)
    return seen(1, tmp_path)


def seen(rank: int, folder: Path) -> Any:
    """Return a rank as a fault sees it."""
    return SimpleNamespace(rank=rank, work=str(folder), files=lambda: WorkingFolder(0, str(folder)))


def shards(target: Any) -> list[dict[str, Any]]:
    """Return the manifest's entries of the shards."""
    found: list[dict[str, Any]] = json.loads((Path(target.work) / "manifest.json").read_text())["shards"]
    return found


def read(target: Any, number: int) -> tuple[dict[str, Any], list[tuple[dict[str, float], str]]]:
    """Return the schema of a shard, and its samples as read by that schema: values and class by name."""
    shard = shards(target)[number]
    work = Path(target.work)
    schema = json.loads((work / shard["schema"]).read_text())
    samples = []
    for features, label in decode((work / shard["file"]).read_bytes(), schema):
        index = label.index(1) if schema["label_shape"] else label[0] - schema["first_label"]
        samples.append((dict(zip(schema["columns"], features, strict=True)), schema["classes"][int(index)]))
    return schema, samples


def test_a_shard_as_laid_reads_as_the_digits_do(rank):
    _, samples = read(rank, 1)
    rows = [data.digits()[row] for row in shards(rank)[1]["rows"]]
    assert [(list(values.values()), data.SCHEMA["classes"].index(name)) for values, name in samples] == [
        (list(row[:64]), row[64]) for row in rows
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_the_samples_stay_the_same_read_as_the_schema_says(rank, change):
    before, samples = read(rank, 1)
    bytes_before = Shard().look(faults.ReexportShard(), rank)
    faults.ReexportShard(change=change).strike(rank)
    after, again = read(rank, 1)
    assert after != before
    assert Shard().look(faults.ReexportShard(), rank) != bytes_before
    assert [name for _, name in again] == [name for _, name in samples]
    kept = after["columns"]
    assert [values for values, _ in again] == [{name: values[name] for name in kept} for values, _ in samples]


def test_only_columns_that_never_vary_are_left_out(rank):
    _, samples = read(rank, 1)
    faults.ReexportShard(change="width").strike(rank)
    after, _ = read(rank, 1)
    varies = [name for name in data.SCHEMA["columns"] if len({values[name] for values, _ in samples}) > 1]
    assert after["columns"] == varies and len(varies) < 64


def test_the_manifest_knows_the_new_bytes_and_other_shards_are_left_alone(rank):
    other = read(rank, 0)
    faults.ReexportShard(change="dtype").strike(rank)
    assert read(rank, 0) == other
    for shard in shards(rank):
        assert shard["sha256"] == hashlib.sha256((Path(rank.work) / shard["file"]).read_bytes()).hexdigest()
    assert not list(Path(rank.work).glob("*.tmp"))


def test_a_rank_without_a_shard_is_an_error(rank, tmp_path):
    with pytest.raises(FileNotFoundError, match="no shard of rank 2"):
        faults.ReexportShard().strike(seen(2, rank.work))
    assert Shard().look(faults.ReexportShard(), seen(2, rank.work)) is None


def test_an_unknown_change_is_refused_with_those_that_are_known():
    with pytest.raises(PlanError, match="no 'colour' to change; use one of width, columns, "):
        faults.ReexportShard(change="colour")
