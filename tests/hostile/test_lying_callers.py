"""A caller that knows the secret and lies, and a rank of a launcher that damages its record: VOID, with the reason."""

from __future__ import annotations

import sys

import pytest

from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import Job, Scenario
from breakrank.runs.request import Request
from breakrank.verdict import Outcome

BEGINS = "import json, os, socket, time; import breakrank_agent; from breakrank_agent.start import join\n"
CALLS = """\
line = socket.socket(socket.AF_UNIX)
line.connect("\\0" + join._home)
line.sendall(join._secret.encode() + HELLO + b"\\n")
assert line.recv(1) == b"", "it was taken in"
"""
LIES = {
    "world": (b'{"rank":0,"world":1000000000,"attempt":null,"store":0}', "its 'world' cannot be 1000000000"),
    "rank": (b'{"rank":-1,"world":2,"attempt":null,"store":0}', "its 'rank' cannot be -1"),
    "beyond": (b'{"rank":2,"world":2,"attempt":null,"store":0}', "its 'rank' cannot be 2"),
    "attempt": (b'{"rank":0,"world":1,"attempt":500,"store":0}', "said that it is of attempt 500, after 0"),
    "unranked": (b'{"did":"SGD","below":null,"place":[-1,2]}', "its 'place' cannot be [-1, 2]"),
    "list": (b"[]", "it is no object"),
    "bytes": (b"\xff\xfe", "it is no JSON"),
}


@pytest.fixture
def launch(bench, tmp_path):
    """Run a script of this text as its launcher would run it; return the verdict."""

    def go(text):
        (tmp_path / "lie.py").write_text(BEGINS + text)
        scenario = Scenario((), Job(steps=0, data="", deadline_s=60.0), (), name="join")
        command = ["env", "RANK=0", "WORLD_SIZE=1", sys.executable, "lie.py"]
        (plan,) = make_script_plans(scenario, command, Choices()).values()
        return bench.run(Request(plan, where=tmp_path)).verdict

    return go


@pytest.mark.parametrize("lie", LIES)
def test_a_caller_that_lies_is_not_taken_in_and_the_reason_is_said(launch, lie):
    said, why = LIES[lie]
    verdict = launch(f"HELLO = {said!r}\n{CALLS}")
    assert verdict.outcome is Outcome.VOID
    assert why in verdict.void[0]


def test_a_launched_rank_that_damages_its_record_is_void_with_the_reason(launch):
    damages = "from breakrank_agent.agent import agent; agent._agent.recorder._log._map[:8] = bytes(8)"
    verdict = launch(f"join.call(0, 1)\n{damages}\ntime.sleep(1000)\n")
    assert verdict.outcome is Outcome.VOID
    assert "the record of rank 0 is damaged: the header of its log was written over" in verdict.void[0]


def test_an_agent_that_cannot_begin_leaves_the_program_alone_and_says_why(launch):
    """There is no room for its log to be mapped."""
    breaks = "from breakrank_agent.start import boot\ndef fails(path): raise OSError(28, 'No space left on device')\n"
    verdict = launch(f"{breaks}boot.LogWriter = fails\njoin.call(0, 1)\nbreakrank_agent.step()\n")
    assert verdict.outcome is Outcome.VOID
    assert "the agent could not begin: OSError: [Errno 28] No space left on device" in verdict.void[0]
