"""A rank on another network interface is suspected if the other ranks cannot reach it, and only then.

Method: a network namespace with two addresses. Gloo on one rank is told to take the second one. A packet filter
refuses all connections to that address, or none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: The name of an address is that of an interface to gloo.
TWO_ADDRESSES = "ip link set lo up && ip address add 10.9.9.9/32 dev lo label lo:9 && "
CLOSED = (
    "nft add table inet closed && "
    "nft 'add chain inet closed in { type filter hook input priority 0; }' && "
    "nft add rule inet closed in ip daddr 10.9.9.9 drop && "
)
RUN = """
import json, sys
from pathlib import Path
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from support.plans import PROGRAMS, plan_of

plan = plan_of("stuck:comes_on_another_interface", ranks=3, steps=2, deadline_s=5.0, oracles=("ends", "progress"))
with Bench(Path(sys.argv[1])) as bench:
    verdict = bench.run(Request(plan, programs=PROGRAMS)).verdict
print(json.dumps([str(verdict.outcome), [f.cause for f in verdict.findings], verdict.blame.ranks, verdict.sentence()]))
"""


def in_a_network(setup: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a network namespace of its own, once the namespace is set up."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    shell = ["unshare", "--map-root-user", "--net", "sh", "-c", setup + 'exec "$@"', "sh"]
    return subprocess.run([*shell, *command], env=environment, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def network():
    """Skip if this machine does not allow such a network."""
    try:
        tried = in_a_network(TWO_ADDRESSES + CLOSED, "true")
    except FileNotFoundError:
        pytest.skip("needs unshare (util-linux)")
    if tried.returncode:
        pytest.skip(f"needs a network namespace, iproute2 and nftables: {tried.stderr.strip()}")


def judged(setup: str, folder: Path) -> list:
    ran = in_a_network(setup, sys.executable, "-c", RUN, str(folder))
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_rank_is_suspected_where_the_others_do_not_reach_its_interface(tmp_path):
    outcome, causes, blamed, sentence = judged(TWO_ADDRESSES + CLOSED, tmp_path)
    assert (outcome, causes, blamed) == ("HUNG", ["interface mismatch"], [2]), sentence
    assert "but rank 2 came on another interface" in sentence


@pytest.mark.soak
def test_another_interface_that_the_others_reach_is_left_alone(tmp_path):
    outcome, causes, blamed, sentence = judged(TWO_ADDRESSES, tmp_path)
    assert (outcome, causes, blamed) == ("SURVIVED", [], []), sentence
