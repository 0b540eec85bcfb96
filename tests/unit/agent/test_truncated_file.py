"""`TruncateFile` leaves the beginning of a file."""

from __future__ import annotations

import pytest

from breakrank_agent import faults
from breakrank_agent.protocol.trigger import PlanError


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5])
def test_a_share_that_leaves_nothing_or_everything_is_refused(share):
    with pytest.raises(PlanError, match="between 0 and 1"):
        faults.TruncateFile(share=share)
