"""Scripts that nobody has struck: their outcome, the blame, and the words by which a person finds the mistake.

Each script runs undisturbed, broken with `--bug` and sound without. All oracles judge it, and no control is there.
"""

from __future__ import annotations

import re
import shutil
from typing import NamedTuple

import pytest
from support.lasting import soak
from support.styles import SCRIPTS, as_program, plan_of_script

from breakrank.plan.script import framework_of
from breakrank.runs.request import Request
from breakrank.verdict import Outcome, Verdict
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

CASES = SCRIPTS / "check_cases"


class Said(NamedTuple):
    """The verdict on a broken script: its outcome, whom to blame, and words that its sentence has."""

    outcome: Outcome
    cause: str
    blamed: tuple[int, ...]
    words: tuple[str, ...]


#: The cause where the timing lets the script end all the same: ranks meet under one name in the store, one by one.
BY_LUCK = {"group mismatch": (Outcome.SILENT, ["new_group mismatch"], ())}
OWN_CLOCK = (
    "rank 0 called all_reduce (saves_by_own_clock.py:25)",
    "where rank 1 called all_reduce (saves_by_own_clock.py:41)",
)
BROKEN = {
    "group_of_members_only.py": Said(
        Outcome.HUNG,
        "group mismatch",
        (),
        ("call 1 of new_group makes a group of [0, 1] on ranks 0 and 1 (", " and of [2, 3] on ranks 2 and 3 ("),
    ),
    "saves_by_own_clock.py": Said(
        Outcome.CRASHED,
        "shape mismatch",
        (),
        OWN_CLOCK,
    ),
    "saves_by_own_clock.py --alike": Said(
        Outcome.SILENT,
        "calls misaligned",
        (),
        OWN_CLOCK,
    ),
    "exchanged_rows.py": Said(
        Outcome.CRASHED,
        "shape mismatch",
        (1,),
        ("all_to_all_single 3", "rank 1 has 10×8 (exchanged_rows.py:30)", "rank 0 has 12×8 (exchanged_rows.py:30)"),
    ),
    "exchanged_rows.py --lists": Said(
        Outcome.CRASHED, "shape mismatch", (1,), ("all_to_all 3", "rank 1 has 5×8 (exchanged_rows.py:21)")
    ),
    "exchanged_rows.py --uneven": Said(
        Outcome.CRASHED,
        "shape mismatch",
        (),
        ("rank 0 has 40 elements for rank 1 (exchanged_rows.py:26)", "rank 1 has 32 from rank 0"),
    ),
    "neighbours.py": Said(
        Outcome.HUNG,
        "message cycle",
        (),
        ("rank 0 waits in send 1 to rank 1 (64×8 ", "neighbours.py:17)", "each receives only after its own send"),
    ),
}


SOUND = (*BROKEN, "label_out_of_range.py")
#: The one that starts cold, as a script does, in `make test`; the others are programs there, and scripts in the soak.
QUICKEST = "neighbours.py"


def started(commands):
    """Return the commands, each with whether it starts cold; what the soak alone tries is marked."""
    cold = [(one, True) if one == QUICKEST else soak(one, True) for one in commands]
    return [*cold, *((one, False) for one in commands if one != QUICKEST and not one.startswith("label"))]


def judged(bench, folder, command, cold=True, **choices) -> Verdict:
    """Return the verdict on a script of this folder, that starts cold or is a program."""
    script = command.split()[0]
    shutil.copy(CASES / script, folder)
    if script.startswith("group"):
        choices["ranks"] = 4
    choices["framework"] = framework_of([script], folder)
    plan = plan_of_script(command, **choices)
    if cold:
        return bench.run(Request(plan, where=folder)).verdict
    return bench.run(Request(as_program(plan, folder), programs=folder)).verdict


@pytest.mark.parametrize(("command", "cold"), started(BROKEN))
def test_a_mistake_is_named_with_the_lines_that_it_lies_in(bench, tmp_path, command, cold):
    verdict, said = judged(bench, tmp_path, f"{command} --bug", cold), BROKEN[command]
    found = [finding.cause for finding in verdict.findings]
    judgement = (verdict.outcome, found, verdict.blame.ranks)
    expected = [(said.outcome, [said.cause], said.blamed), BY_LUCK.get(said.cause)]
    assert judgement in expected, verdict.sentence()
    assert all(words in verdict.sentence() for words in said.words), verdict.sentence()
    assert not verdict.also and "nothing shows" not in verdict.blame.words()


@pytest.mark.parametrize(("command", "cold"), started(SOUND))
def test_nothing_is_found_in_a_sound_one(bench, tmp_path, command, cold):
    verdict = judged(bench, tmp_path, command, cold)
    assert (verdict.outcome, verdict.findings, verdict.also) == (Outcome.SURVIVED, (), ()), verdict.sentence()


def test_an_error_of_tensorflow_is_said_by_its_cause_and_the_users_line(bench, tmp_path):
    verdict = judged(bench, tmp_path, "label_out_of_range.py --bug")
    assert verdict.outcome is Outcome.DETECTED
    # Both ranks have the same labels: either may be the first to come to the wrong one.
    said = r"rank [01] reported InvalidArgumentError: Received a label value of 7 which is "
    assert re.match(said, verdict.sentence()), verdict.sentence()
    assert "(label_out_of_range.py:22) at step 3" in verdict.sentence()


@pytest.mark.parametrize(("bug", "outcome", "words"), [
    (" --bug", Outcome.SILENT, "first at step 1 of attempt 1 (step 5 of the control)"),
    ("", Outcome.SURVIVED, "no oracle objects"),
])  # fmt: skip
def test_a_resumed_job_parts_from_the_control_at_the_step_after_its_checkpoint(bench, tmp_path, bug, outcome, words):
    kill = faults.Kill() @ at(rank=1, step=7, point="optimize")
    shutil.copy(CASES / "resumes_without_momentum.py", tmp_path)
    plan = as_program(plan_of_script(f"resumes_without_momentum.py{bug}", [kill], restarts=1), tmp_path)
    verdict = bench.run(Request(plan, programs=tmp_path)).verdict
    assert verdict.outcome is outcome, verdict.sentence()
    assert words in verdict.sentence()
