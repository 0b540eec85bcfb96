"""Thousands of run directories that somebody has tampered with: each is answered, and nothing else happens."""

from __future__ import annotations

import os
import shutil
import time

import pytest
from support.mutants import ask, fingerprint, make_kinds, mutate

pytestmark = pytest.mark.soak

TRIES = int(os.environ.get("BREAKRANK_SOAK_MUTANTS", "5000"))
FIRST = int(os.environ.get("BREAKRANK_SOAK_SEED", "0"))


def test_no_mutant_of_a_run_directory_is_answered_with_a_traceback_or_not_at_all(bench, tmp_path, capsys):
    kinds = make_kinds(bench, tmp_path / "script")
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "kept").write_text("as it was")
    wrong: list[str] = []
    codes: dict[object, int] = {}
    slowest = 0.0
    for seed in range(FIRST, FIRST + TRIES):
        name = sorted(kinds)[seed % len(kinds)]
        folder = beside / "run"
        shutil.copytree(kinds[name], folder, ignore=shutil.ignore_patterns("work", "__pycache__"))
        how = mutate(folder, seed)
        before = fingerprint(beside)
        for command in ("show", "judge"):
            began = time.monotonic()
            answer = ask(command, folder)
            slowest = max(slowest, time.monotonic() - began)
            codes[answer.code] = codes.get(answer.code, 0) + 1
            if not answer.is_fine:
                wrong.append(
                    f"{command} of {name}, seed {seed} ({how}): {answer.code} {answer.raised}{answer.err[:300]}"
                )
        if fingerprint(beside) != before:
            wrong.append(f"{name}, seed {seed} ({how}): something was changed")
        shutil.rmtree(folder)
    hangs = sum("_Hung" in line for line in wrong)
    with capsys.disabled():
        print(
            f"\ntries {TRIES}, tracebacks {len(wrong) - hangs}, hangs {hangs}; exit codes {codes}; "
            f"at most {slowest:.1f} s"
        )
    assert not wrong, "\n".join(wrong[:40])
