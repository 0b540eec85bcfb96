"""A rank that damages its own record makes the run VOID, with this reason, and the run ends at once."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import jsonschema
import pytest

from breakrank.schemas import schema
from breakrank.verdict import Outcome

LIARS = Path(__file__).parents[1] / "programs" / "liars.py"
#: By lie, the words of the verdict.
SAYS = {
    "head_back": "the header of its log was written over",
    "head_ahead": "the header of its log was written over",
    "magic": "the header of its log was written over",
    "huge_length": "it says that a record has 4294967280 bytes, where there is room for fewer",
    "no_length": "a record is no event: it is no JSON",
    "no_such_facts": "a record names facts that are not in its table, at place 999",
    "short_mark": "a record of the kind 'start' is none",
    "no_object": "a record is no event: it is no object",
    "deep": "a record is no event: it nests deeper than 32 levels",
    "wrong_types": "a record is no event: its 'step' cannot be 'one'",
    "no_sense": "an event of the kind 'rendezvous' makes no sense: KeyError: 'phase'",
    "strange_child": "a record is no event: its 'name' cannot be '../../../etc/passwd'",
    "cut_short": "its log was cut short",
    "chatters": "what it said is no message: it is no JSON",
    "chatters_on": "bytes without an end of line",
    "parks": "what it said is no message: the plan has no strike 99 for which this rank waits",
    "last_words": "its crash dump does not end",
}


def test_every_lie_is_tried():
    tried = {
        node.name
        for node in ast.parse(LIARS.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.args.args
    }
    assert tried == set(SAYS)


@pytest.mark.parametrize("lie", SAYS)
def test_a_damaged_record_is_void_with_the_rank_and_the_reason(run, lie):
    result, saved = run(f"liars:{lie}", deadline_s=60.0)
    assert result.verdict.outcome is Outcome.VOID
    assert result.verdict.void[0].startswith("the record of rank 1 is damaged: ")
    assert SAYS[lie] in result.verdict.void[0]
    # The rank that says no lies was ended at once, and not because it stood still.
    assert saved.history.ranks[0, 0].ended_by_us and not saved.history.seen("hung")
    assert len(saved.history.seen("damaged")) == 1
    check = jsonschema.Draft202012Validator(schema("conductor"))
    for line in (result.folder / "conductor.jsonl").read_text().splitlines():
        check.validate(json.loads(line))
