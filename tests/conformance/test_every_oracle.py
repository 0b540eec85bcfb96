"""Every oracle that is discovered: it reads the history alone, and leaves a sound run alone."""

from __future__ import annotations

import copy
import inspect
import sys

import pytest

from breakrank.causes import CAUSES
from breakrank.history.reader import History
from breakrank.oracles import Abstain, Terms, all_oracles
from breakrank.verdict import Finding
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

ORACLES = [pytest.param(judge, id=name) for name, judge in all_oracles().items()]
TERMS = Terms(ranks=2, steps=4)


def said(judge, history, control) -> list[Finding] | str:
    try:
        return list(judge(history, control, TERMS))
    except Abstain as reason:
        return str(reason)


@pytest.mark.parametrize("judge", ORACLES)
def test_it_says_what_it_is(judge):
    module = sys.modules[judge.__module__]
    assert module.__doc__ and module.__doc__.splitlines()[0].endswith(".")
    assert list(inspect.signature(judge).parameters) == ["history", "control", "terms"]


@pytest.mark.parametrize("judge", ORACLES)
def test_it_abstains_with_a_reason_or_is_silent_where_nothing_was_seen(judge):
    answer = said(judge, History(), None)
    assert answer == [] or (isinstance(answer, str) and answer)


@pytest.mark.parametrize("judge", ORACLES)
def test_it_leaves_a_sound_run_alone(once, judge):
    _, saved = once("small:train", faults.Placebo() @ at(rank=1, step=2))
    answer = said(judge, saved.history.without_faults(), saved.control)
    assert not isinstance(answer, list) or answer == []


@pytest.mark.parametrize("judge", ORACLES)
@pytest.mark.parametrize("program", ["turns_to_nan", "segfaults", "leaves_at_once"])
def test_it_is_pure_and_names_known_causes_and_ranks(once, judge, program):
    _, saved = once(f"small:{program}")
    before = copy.deepcopy(saved.history)
    first, second = (said(judge, saved.history, saved.control) for _ in range(2))
    assert first == second and saved.history == before
    for finding in first if isinstance(first, list) else []:
        assert finding.cause in CAUSES and set(finding.ranks) <= {0, 1}
        assert finding.sentence()
