"""The JSON Schemas of what a run directory holds: `plan`, `event`, `conductor` and `verdict`, for whoever reads it without us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def schema(name: str) -> dict[str, Any]:
    """Return the schema called `name`. Raises `FileNotFoundError` if there is none."""
    read: dict[str, Any] = json.loads((Path(__file__).parent / f"{name}.schema.json").read_text())
    return read
