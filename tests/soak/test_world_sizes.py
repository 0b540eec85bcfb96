"""The catalogue with three and with four ranks: each record holds, or the case has its own for that size."""

from __future__ import annotations

import pytest
from support.catalogued import CASES, assert_as_recorded, names

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize(("scenario", "case"), CASES, ids=names(CASES))
def test_its_case_is_as_recorded_with_more_ranks(bench, scenario, case, ranks):
    sizes = scenario.sizes_of(case)
    if sizes and ranks not in sizes:
        pytest.skip(f"the program is for {sizes} ranks")
    assert_as_recorded(bench, scenario, case, ranks)
