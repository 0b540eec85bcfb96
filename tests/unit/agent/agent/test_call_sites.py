"""Call sites: lines that count as the user's, and lines of foreign code."""

from __future__ import annotations

import json
from pathlib import Path

from breakrank_agent.agent.call_sites import NOWHERE, Sites


def test_code_that_ran_before_its_folder_was_named_as_foreign_is_foreign_from_then_on():
    # A cold rank: the framework opens files while it is imported, before its hook can say what is the framework's.
    sites = Sites("/nowhere")
    assert sites.of(json.dumps.__code__) is NOWHERE
    code = test_code_that_ran_before_its_folder_was_named_as_foreign_is_foreign_from_then_on.__code__
    assert sites.of(code) is not NOWHERE
    sites.add_foreign(str(Path(__file__).parent))
    assert sites.of(code) is NOWHERE
