"""The environment of a rank, and the part of it that is known before the ranks have addresses."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from breakrank.runners.process import ProcessRunner
from breakrank_agent.plan import Plan

PLAN = Plan("test", "case", "some:main", framework="tensorflow", ranks=2)


def test_what_all_ranks_have_in_common_is_known_before_they_have_addresses():
    runner = ProcessRunner(SimpleNamespace(id="1"), Path("agent"), Path("programs"))
    before = runner._environment(PLAN, 0, 0, 0)
    assert "TF_CONFIG" not in before
    port = runner._find_port(PLAN)
    try:
        after = runner._environment(PLAN, 1, 0, port)
        assert json.loads(after["TF_CONFIG"]) == {
            "cluster": {"worker": runner._addresses()},
            "task": {"type": "worker", "index": 1},
        }
        assert len(set(runner._addresses())) == 2
    finally:
        runner._release_ports()
