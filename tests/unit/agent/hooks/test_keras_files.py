"""The digest of a file of Keras is one of what was saved, and not of when and in which process."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from breakrank_agent.hooks.tensorflow.checkpoints import _digest


def layers(*addresses: int) -> Any:
    return {"layers": [{"dtype": "float32", "shared_object_id": address} for address in addresses]}


def saved(folder: Path, config: Any, date: str = "2026-01-01@00:00:00", weights: bytes = b"weights") -> str:
    path = folder / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"date_saved": date}))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", weights)
    return str(_digest(str(path))["file"])


def test_the_date_and_the_addresses_of_shared_objects_do_not_count(tmp_path: Path) -> None:
    one = saved(tmp_path, layers(140531156682448, 94, 140531156682448))
    assert saved(tmp_path, layers(7, 140256607700752, 7), date="2026-01-01@00:00:01") == one


@pytest.mark.parametrize(
    "other",
    [{"config": layers(7, 8, 8)}, {"config": {"units": 3}}, {"config": layers(7, 8, 7), "weights": b"others"}],
    ids=["which-is-shared", "config", "weights"],
)
def test_what_is_shared_the_configuration_and_the_weights_count(tmp_path: Path, other: dict[str, Any]) -> None:
    assert saved(tmp_path, **other) != saved(tmp_path, layers(7, 8, 7))
