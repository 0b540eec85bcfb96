"""Manifest, schemas and shards may be hostile: a strike on them changes nothing elsewhere."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest
from support import canary

from breakrank import faults
from breakrank.fixtures import data
from breakrank.witnesses.data import Shard
from breakrank_agent.kernel.rooted import WorkingFolder

FAULT = faults.ReexportShard(change="columns")


@pytest.fixture
def disk(tmp_path):
    """Return a folder with shards of another job."""
    (tmp_path / "disk").mkdir()
    data.lay("digits", tmp_path / "disk", 0, 2)
    return tmp_path / "disk"


@pytest.fixture
def work(tmp_path):
    """Return the working folder, with shards of digits."""
    (tmp_path / "work").mkdir()
    data.lay("digits", tmp_path / "work", 0, 2)
    return tmp_path / "work"


@pytest.fixture
def rank(work):
    """Return rank 1 as a fault sees it."""
    return SimpleNamespace(rank=1, files=lambda: WorkingFolder(0, str(work)))


def rename(work, **names: str) -> None:
    """Have the manifest name other files for the shard of rank 1."""
    manifest = json.loads((work / "manifest.json").read_text())
    next(s for s in manifest["shards"] if s["rank"] == 1).update(names)
    (work / "manifest.json").write_text(json.dumps(manifest))


def shard(work) -> dict:
    manifest = json.loads((work / "manifest.json").read_text())
    return next(s for s in manifest["shards"] if s["rank"] == 1)


@pytest.mark.parametrize("what", ["file", "schema"])
@pytest.mark.parametrize("where", ["../disk/{name}", "{disk}/{name}", "out/{name}", "link"])
def test_a_shard_that_lies_elsewhere_is_not_exported(work, disk, rank, what, where):
    name = shard(work)[what]
    (work / "out").symlink_to("../disk")
    (work / "link").symlink_to(disk / name)
    named = where.format(name=name, disk=disk)
    rename(work, **{what: named})
    before = canary.seen(disk), canary.seen(work)
    with pytest.raises(OSError) as error:
        FAULT.strike(rank)
    assert str(error.value) == f"{named} leads out of the working folder, to {disk / name}"
    assert (Shard().look(FAULT, rank) is None) == (what == "file")
    assert (canary.seen(disk), canary.seen(work)) == before


def test_a_manifest_that_is_a_link_to_another_is_not_read(work, disk, rank):
    (work / "manifest.json").unlink()
    (work / "manifest.json").symlink_to(disk / "manifest.json")
    before = canary.seen(disk)
    with pytest.raises(OSError, match="leads out of the working folder"):
        FAULT.strike(rank)
    assert Shard().look(FAULT, rank) is None and canary.seen(disk) == before


def test_files_are_exported_through_no_link_and_no_other_name(work, disk, rank):
    """Links wait under the names of unfinished files; the shard has another name outside."""
    names = [shard(work)["file"], shard(work)["schema"], "manifest.json"]
    for name in names:
        (work / f"{name}.tmp").symlink_to(disk / name)
    (work / names[0]).unlink()
    os.link(disk / names[0], work / names[0])
    bytes_before, digest = (disk / names[0]).read_bytes(), Shard().look(FAULT, rank)
    with open(disk / names[0], "rb") as held:
        FAULT.strike(rank)
        assert held.read() == bytes_before == (disk / names[0]).read_bytes()
    assert Shard().look(FAULT, rank) not in (None, digest)
    assert not (work / names[0]).is_symlink() and (work / f"{names[0]}.tmp").is_symlink()


def test_a_shard_behind_a_link_inside_is_exported_where_it_lies(work, rank):
    name = shard(work)["file"]
    (work / "shards").mkdir()
    (work / name).rename(work / "shards" / name)
    (work / name).symlink_to(f"shards/{name}")
    before = (work / "shards" / name).read_bytes()
    FAULT.strike(rank)
    assert (work / name).is_symlink() and (work / "shards" / name).read_bytes() != before


@pytest.mark.parametrize("text", [
    "", "7", "[]", "{}", '{"shards": 7}', '{"shards": [7]}', '{"shards": [{"rank": 1}]}', "[" * 100_000,
    '{"shards": [{"rank": 1, "file": 7, "schema": 7}]}', '{"shards": [{"rank": 1, "file": "\\u0000", "schema": "x"}]}',
    '{"shards": [{"rank": 1, "file": "manifest.json", "schema": "manifest.json"}]}',
])  # fmt: skip
def test_a_manifest_that_is_none_is_an_error_of_one_line(work, rank, text):
    (work / "manifest.json").write_text(text)
    before = canary.seen(work)
    with pytest.raises(OSError) as error:
        FAULT.strike(rank)
    assert "\n" not in str(error.value) and canary.seen(work) == before
    Shard().look(FAULT, rank)


def test_what_never_ends_is_not_read(work, rank):
    for name in ("pipe", "device"):
        (work / "manifest.json").unlink()
        os.mkfifo(work / "manifest.json") if name == "pipe" else (work / "manifest.json").symlink_to("/dev/zero")
        with pytest.raises(OSError):
            FAULT.strike(rank)
        assert Shard().look(FAULT, rank) is None
    (work / "manifest.json").unlink()
    with open(work / "manifest.json", "wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(OSError):
        FAULT.strike(rank)
