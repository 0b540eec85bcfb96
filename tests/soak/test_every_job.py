"""The whole table: three scripts, each launcher that is here, each way in which five scenarios strike a script."""

from __future__ import annotations

import pytest
from support import jobs

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("row", jobs.here(jobs.TABLE), ids="-".join)
def test_a_script_gets_the_verdict_that_is_known_of_it(bench, tmp_path, monkeypatch, row):
    jobs.assert_known(bench, row, tmp_path, monkeypatch)
