"""A zygote serves all ranks whose environments mean the same to an import."""

from __future__ import annotations

import pytest

from breakrank.runners.zygotes import _key, lasting

COMMON = {"PATH": "/usr/bin", "PYTHONHASHSEED": "0", "RANK": "0", "BREAKRANK_WARM": "transformers"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RANK", "1"),
        ("TZ", "FAR-14"),
        ("SLURM_CPUS_PER_TASK", "2"),
        ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"),
        ("TF_CONFIG", "{}"),
    ],
)
def test_one_zygote_serves_ranks_that_differ_in_what_no_import_reads(name: str, value: str) -> None:
    assert _key("torch", {**COMMON, name: value}) == _key("torch", COMMON)
    assert name not in lasting({**COMMON, name: value})


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LC_ALL", "MALLOC_MMAP_THRESHOLD_", "BREAKRANK_WARM"])
def test_another_serves_those_that_differ_in_what_an_interpreter_or_an_import_reads(name: str) -> None:
    assert _key("torch", {**COMMON, name: "1"}) != _key("torch", COMMON)


def test_each_framework_has_zygotes_of_its_own() -> None:
    assert _key("torch", COMMON) != _key("tensorflow", COMMON)
