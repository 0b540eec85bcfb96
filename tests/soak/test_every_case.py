"""The catalogue's cases that `make test` leaves out."""

from __future__ import annotations

import pytest
from support.catalogued import REST, assert_as_recorded, names

pytestmark = pytest.mark.soak


@pytest.mark.parametrize(("scenario", "case"), REST, ids=names(REST))
def test_its_case_is_as_recorded(bench, scenario, case):
    assert_as_recorded(bench, scenario, case)
