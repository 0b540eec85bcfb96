"""The catalogue's own runs, judged again: each verdict is, in all its words, the one that was saved.

Only for `make mutants`, which makes the runs and then changes the code that judges them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from breakrank.runs.saved_run import SavedRun, judge_saved, load_run

#: The folder of the runs.
RUNS = Path(os.environ.get("BREAKRANK_CATALOGUE_RUNS", os.devnull))
#: Fields of a saved verdict that judging does not make.
_BESIDE = ("record", "as_recorded", "seconds")


#: Read while tests are collected: the processes in which mutants are tried are forked afterwards, and share them.
SAVED = {path.parent.name: load_run(path.parent) for path in sorted(RUNS.glob("*/verdict.json"))}


@pytest.mark.parametrize("run", SAVED.values(), ids=SAVED)
def test_a_saved_run_is_judged_as_it_was(run: SavedRun) -> None:
    saved: dict[str, Any] = dict(run.verdict or {})
    for field in _BESIDE:
        saved.pop(field, None)
    assert json.loads(json.dumps(judge_saved(run).to_json())) == saved
