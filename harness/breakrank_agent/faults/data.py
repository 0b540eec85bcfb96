"""Faults of data: one rank trains on other data, or in another form, than its peers."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from breakrank_agent.kernel.rooted import WorkingFolder
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.payload import Payload
from breakrank_agent.protocol.shards import MANIFEST, SHARD_BYTES
from breakrank_agent.protocol.target import Target
from breakrank_agent.protocol.trigger import PlanError

#: Errors of files that are not as they were laid.
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
#: Type codes of the module array for the numbers of a shard, by the name that its schema has for them.
_CODES = {"uint8": "B", "float64": "d"}
#: The schema of a shard, and its samples: the features and the numbers of the label.
Schema = dict[str, Any]
Samples = list[tuple[list[Any], list[Any]]]


@dataclass(frozen=True)
class ReexportShard(
    Fault,
    side="outside",
    strikes_scripts=False,
    witness="shard",
    certifies="a shard of another form than the others'; says nothing about samples that are wrong",
):
    """The rank's shard is exported anew, by a pipeline that does one thing differently and says so.

    The samples stay the same. `change` is what is done another way: `width` leaves out the columns that never vary,
    `columns` puts the columns in the order of their names, `dtype` writes float64, `label_shape` gives a number for
    each class (one-hot), `label_range` counts the classes from 1, `class_order` numbers them in the order of their
    names. It strikes well at the point `start`, before the job reads anything, and wants the shards that
    `fixtures.data` lays. Raises `PlanError` for another `change`.
    """

    change: str = "columns"

    def __post_init__(self) -> None:
        if self.change not in CHANGES:
            raise PlanError(f"a shard has no {self.change!r} to change; use one of {', '.join(CHANGES)}")

    def strike(self, target: Target) -> None:
        """Rewrite shard, schema and manifest, each in one go. Raises `OSError` if the rank has no shard."""
        with target.files() as files:
            try:
                self._export(files, target.rank)
            except _MALFORMED as error:
                # A rank may have laid the files.
                raise OSError(f"the shards are not as fixtures.data lays them: {error!r}") from None

    def _export(self, files: WorkingFolder, rank: int) -> None:
        manifest = json.loads(files.read(MANIFEST, SHARD_BYTES))
        shard = next((s for s in manifest["shards"] if s["rank"] == rank), None)
        if shard is None:
            raise FileNotFoundError(f"the manifest names no shard of rank {rank}")
        schema = json.loads(files.read(shard["schema"], SHARD_BYTES))
        samples = decode(files.read(shard["file"], SHARD_BYTES), schema)
        schema, samples = CHANGES[self.change](schema, samples)
        content = array(_CODES[schema["dtype"]], [n for features, label in samples for n in (*features, *label)])
        shard["sha256"] = hashlib.sha256(content.tobytes()).hexdigest()
        files.replace(shard["file"], content.tobytes())
        files.replace(shard["schema"], (json.dumps(schema, indent=1) + "\n").encode())
        files.replace(MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


@dataclass(frozen=True)
class SwapColumns(
    Fault,
    on="batch",
    points=("load",),
    witness="batch",
    certifies="features in another order, of one batch; says nothing about where they come from",
):
    """Two columns of one batch are swapped: `first` and `second` of the last dimension of tensor `part`."""

    first: int = 0
    second: int = 1
    part: int = 0

    def strike_inside(self, payload: Payload) -> None:
        """Swap them in every row."""
        part = payload.batch()[self.part]
        numbers, width = part.numbers(), part.shape[-1]
        for row in range(0, len(numbers), width):
            one, other = row + self.first % width, row + self.second % width
            numbers[one], numbers[other] = numbers[other], numbers[one]


@dataclass(frozen=True)
class ShiftLabels(
    Fault,
    on="batch",
    points=("load",),
    witness="batch",
    certifies="labels of another range, of one batch; says nothing about where they come from",
):
    """The labels of one batch are counted from another number: `by` is added to each number of tensor `part`."""

    by: int = 1
    part: int = -1

    def strike_inside(self, payload: Payload) -> None:
        """Add to every number."""
        numbers = payload.batch()[self.part].numbers()
        for place in range(len(numbers)):
            numbers[place] += self.by


@dataclass(frozen=True)
class CastBatch(
    Fault,
    on="batch",
    points=("load",),
    witness="batch",
    certifies="a batch of another dtype; says nothing about where it comes from",
):
    """Tensor `part` of one batch comes in another dtype."""

    dtype: str = "float64"
    part: int = 0

    def strike_inside(self, payload: Payload) -> None:
        """Have the framework cast it."""
        payload.batch()[self.part].cast(self.dtype)


@dataclass(frozen=True)
class CutFile(
    Fault,
    side="outside",
    witness="shorter_file",
    certifies="a file that ends early, as a copy that was broken off; says nothing about bytes that are wrong",
):
    """A file ends early, as where it was copied or downloaded in part.

    `path` is below the working folder, and may have wildcards; of several files it is the last in the order of names.
    `share` is how much of it is left, from 0 (nothing) to below 1. Raises `PlanError` for others.
    """

    path: str = "manifest.json"
    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise PlanError(f"what is left of a file is a share of it, from 0 to below 1, not {self.share}")

    def strike(self, target: Target) -> None:
        """Cut it off. Raises `OSError` if there is no such file, or if it is empty."""
        with target.files() as files, files.writable(self.path, 1) as file:
            os.ftruncate(file, int(self.share * os.fstat(file).st_size))


def decode(content: bytes, schema: Schema) -> Samples:
    """Return the samples in the bytes of a shard, as its schema says."""
    numbers = array(_CODES[schema["dtype"]], content)
    width = len(schema["columns"])
    size = width + (schema["label_shape"] or [1])[0]
    rows = [numbers[i : i + size].tolist() for i in range(0, len(numbers), size)]
    return [(row[:width], row[width:]) for row in rows]


def _without_constants(schema: Schema, samples: Samples) -> tuple[Schema, Samples]:
    varies = [len(set(values)) > 1 for values in zip(*(features for features, _ in samples))]
    return _with_columns([i for i, does in enumerate(varies) if does], schema, samples)


def _columns_by_name(schema: Schema, samples: Samples) -> tuple[Schema, Samples]:
    names = schema["columns"]
    return _with_columns(sorted(range(len(names)), key=names.__getitem__), schema, samples)


def _with_columns(order: list[int], schema: Schema, samples: Samples) -> tuple[Schema, Samples]:
    """Keep the columns in `order` alone, in that order."""
    kept = [([features[i] for i in order], label) for features, label in samples]
    return {**schema, "columns": [schema["columns"][i] for i in order]}, kept


def _as_float64(schema: Schema, samples: Samples) -> tuple[Schema, Samples]:
    return {**schema, "dtype": "float64"}, samples


def _one_hot(schema: Schema, samples: Samples) -> tuple[Schema, Samples]:
    first, count = schema["first_label"], len(schema["classes"])
    hot = [(features, [int(number == label - first) for number in range(count)]) for features, (label,) in samples]
    return {**schema, "label_shape": [count]}, hot


def _counted_from_one(schema: Schema, samples: Samples) -> tuple[Schema, Samples]:
    more = 1 - schema["first_label"]
    return {**schema, "first_label": 1}, [(features, [label + more]) for features, (label,) in samples]


def _classes_by_name(schema: Schema, samples: Samples) -> tuple[Schema, Samples]:
    first, names = schema["first_label"], schema["classes"]
    ordered = sorted(names)
    number = [first + ordered.index(name) for name in names]
    return {**schema, "classes": ordered}, [(features, [number[label - first]]) for features, (label,) in samples]


CHANGES: Mapping[str, Callable[[Schema, Samples], tuple[Schema, Samples]]] = {
    "width": _without_constants,
    "columns": _columns_by_name,
    "dtype": _as_float64,
    "label_shape": _one_hot,
    "label_range": _counted_from_one,
    "class_order": _classes_by_name,
}
