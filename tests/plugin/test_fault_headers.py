"""A wrong header of a fault is one line for the user, when the fault is defined, with the nearest name."""

from __future__ import annotations

import pytest

FAULT = """
    from dataclasses import dataclass
    from breakrank import Case, Job, SURVIVED, Scenario, at
    from breakrank_agent.protocol.fault import Fault

    @dataclass(frozen=True)
    class Nudge(Fault, {header}):
        '''The rank is nudged.'''

    SCENARIO = Scenario(strikes=[Nudge() @ at(rank=1, step=2)], cases=[Case("a", "fake:sound", SURVIVED)])
"""
GOOD = {"side": "'outside'", "witness": "'ended'", "certifies": "'nothing'"}


@pytest.mark.parametrize("command", ["--scenario=nudged", "--scenario-list"])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"witness": "'endet'"}, "unknown witness 'endet'; did you mean 'ended'?"),
        ({"witness": "''"}, "names no witness; known are address_space, batch, "),
        ({"side": "'outsid'"}, "unknown side 'outsid'; did you mean 'outside'?"),
        ({"sied": "'outside'"}, "unknown keyword 'sied'; did you mean 'side'?"),
        ({"points": "('step', 'bakward')"}, "unknown points 'bakward'; did you mean 'backward'?"),
        ({"needs": "('netsn',)"}, "unknown needs 'netsn'; did you mean 'netns'?"),
        ({"needs": "'netns'"}, "needs is 'netns', not a tuple"),
    ],
)
def test_it_is_refused_in_one_line(project, command, wrong, says):
    header = ", ".join(f"{keyword}={value}" for keyword, value in {**GOOD, **wrong}.items())
    project.file("mine/nudged.py", FAULT.format(header=header))
    result = project.pytest(command)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert line.startswith("ERROR: breakrank: ") and "nudged.py, line 7: PlanError: fault Nudge: " in line, line
    assert says in line


def test_one_without_mistakes_is_taken(project):
    header = ", ".join(f"{keyword}={value}" for keyword, value in GOOD.items())
    project.file("mine/nudged.py", FAULT.format(header=header))
    result = project.pytest("--scenario=nudged", "--collect-only", "-q")
    assert result.ret == 0 and "nudged::a" in result.outlines
