"""A slip in a scenario file is said at collection, in one line with the file, its line and the nearest name."""

from __future__ import annotations

import pytest

FILE = """
    '''Made up.'''
    from breakrank import *

    SCENARIO = Scenario(
        job=Job(ranks=2),
        {more}
        cases=[
            Case("first", "mine:train", SURVIVED),
            {case},
        ],
    )
"""
PROGRAM = """
    import no_such_package  # nothing is imported to find a slip
    from elsewhere import borrowed

    if no_such_package:
        def train(): pass
    else:
        later = train = None
"""


@pytest.fixture
def complain(project):
    """Collect a scenario with a slip, and return the one line that is said of it."""
    project.file("mine/programs/mine.py", PROGRAM)

    def collect(case='Case("second", "mine:train", SURVIVED)', more="", *options):
        project.file("mine/slip.py", FILE.format(case=case, more=more))
        result = project.pytest("--scenario=slip", *(options or ("--scenario-dry-run",)))
        assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
        (line,) = [line for line in result.errlines if line]
        assert line.startswith(f"ERROR: breakrank: {project.path}/mine/slip.py, line ")
        return line.partition("/mine/slip.py, ")[2]

    return collect


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ('Case("b", "mien:train", SURVIVED)', "line 10: the case 'b': unknown module 'mien'; did you mean 'mine'?"),
        ('Case("b", "mine:trian", SURVIVED)', "line 10: the case 'b': unknown function 'trian'; did you mean 'train'?"),
        ('Case("b", "mine", SURVIVED)', "line 10: the case 'b': the program 'mine' is no 'module:function'"),
        (
            'Case("b", "mine:train", SURVIVED, control="mine:x")',
            "line 10: the case 'b': unknown function 'x'; known are",
        ),
        (
            'Case("b", "mine:train", "DETECTED")',
            "line 10: the case 'b' has expect='DETECTED', a text; write expect=DET",
        ),
        ('Case("b", "mine:train", expect="DETECTD")', "write expect=DETECTED, without quotes"),
        ('Case("b", "mine:train", silent)', "a function; write silent(oracle=...), or SILENT"),
        ('Case("b", "mine:train", 3)', "has expect=3, which is no record; records are VOID, HUNG"),
        (
            'Case("b", "mine:train", silent(oracle="rcae"))',
            "line 10: the case 'b': unknown oracle 'rcae'; did you mean",
        ),
        ('Case("b", "mine:train", SURVIVED, needs="docker")', "has needs='docker'; it has to be a tuple of names"),
        ('Case("b", "mine:train", SURVIVED, ranks="2")', "has ranks='2'; it has to be a whole number from 1"),
        ('Case("b", "mine:train", SURVIVED, strikes=[faults.Kill()])', "it has to be a list of strikes, as in"),
        ('Case("b", "mine:train", SURVIVED, at={"3": DETECTED})', "it has to be records by number of ranks"),
        ('Case("first", "mine:train", SURVIVED)', "two cases are called 'first'"),
    ],
)
def test_a_slip_in_a_case_is_one_line(complain, case, says):
    assert says in complain(case)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('oracles=["race", "replcas"],', "line 7: unknown oracle 'replcas'; did you mean 'replicas'?"),
        ('oracles="race",', "oracles='race'; it has to be a list of names"),
        ("strikes=[faults.Kill()],", "it has to be a list of strikes"),
    ],
)
def test_a_slip_in_the_scenario_is_one_line(complain, more, says):
    assert says in complain(more=more)


def test_nothing_is_run_before_a_slip_is_said(complain, project):
    assert "unknown module 'nomod'" in complain('Case("b", "nomod:p", SURVIVED)', "", "-v")
    assert not (project.path / ".breakrank").exists()


@pytest.mark.parametrize(
    "program", ["mine:train", "mine:later", "mine:borrowed", "json:loads", "made:anything", "starred:anything"]
)
def test_a_program_that_is_there_or_may_be_is_taken(project, program):
    project.file("mine/programs/mine.py", PROGRAM)
    project.file("mine/programs/made.py", "def __getattr__(name): return print")
    project.file("mine/programs/starred.py", "from elsewhere import *")
    project.file("mine/slip.py", FILE.format(case=f'Case("b", "{program}", SURVIVED)', more=""))
    assert project.pytest("--scenario=slip", "--scenario-dry-run").ret == 0


def test_a_program_that_is_no_python_is_named_with_its_line(complain, project):
    project.file("mine/programs/torn.py", "def train(:\n")
    assert "torn.py, line 1: invalid syntax" in complain('Case("b", "torn:train", SURVIVED)')


def test_programs_of_a_scenario_are_not_asked_for_where_a_script_takes_their_place(project):
    project.file("train.py", "pass\n")
    project.file("mine/slip.py", FILE.format(case='Case("b", "nomod:p", SURVIVED)', more=""))
    assert project.pytest("--scenario=slip", "--scenario-train=train.py", "--scenario-dry-run").ret == 0
