"""The JSON Schemas of the files in a run directory, for programs other than ours that read them.

The schemas are called `plan`, `event` (a rank's history), `conductor` and `verdict`. Those of the lines of
`--scenario-json` are called `session` and `result`. Those called `list`, `doctor` and `why` describe the answers of
these commands under `--json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def schema(name: str) -> dict[str, Any]:
    """Return the schema called `name`. Raises `FileNotFoundError` if there is none."""
    read: dict[str, Any] = json.loads((Path(__file__).parent / f"{name}.schema.json").read_text())
    return read
