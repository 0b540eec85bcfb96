"""The words of a page: who waits for whom, strikes with their phases, output and stacks, and the time of day."""

from __future__ import annotations

import json
import re

import pytest
from support import pictured
from support.golden import Golden

from breakrank.runs.directory import note_end
from breakrank.timeline import words
from breakrank.timeline.draw import draw
from breakrank.timeline.model import Picture
from breakrank.timeline.reading import Seen, read_run


@pytest.fixture
def hang(once):
    return read_run(pictured.make(once, "hang").folder)


def test_a_run_notes_both_clocks_at_its_start_and_its_end(hang):
    clock = hang.meta["clock"]
    times = [event["t"] for event in hang.history.conductor]
    assert clock["began"]["monotonic"] <= min(times) and max(times) <= clock["ended"]["monotonic"]
    assert clock["began"]["unix"] <= clock["ended"]["unix"]


def test_the_picture_begins_at_a_time_of_day(tmp_path):
    meta = {"clock": {"began": {"monotonic": 100.0, "unix": 1_000_000_000.0}}}
    rows = dict(words.made(Seen(tmp_path, Golden().history(), meta=meta), Picture(zero=101.25)))
    assert rows["0 ms is"] == "2001-09-09T01:46:41.250Z"


@pytest.mark.parametrize("clock", [None, {}, {"began": 3}, {"began": {"monotonic": "x", "unix": float("nan")}}])
def test_a_run_without_clocks_has_no_time_of_day(tmp_path, clock):
    seen = Seen(tmp_path, Golden().history(), meta={"clock": clock})
    assert "0 ms is" not in dict(words.made(seen, Picture(zero=101.25)))


@pytest.mark.parametrize("text", [None, "{}", "no json", "[]"])
def test_the_end_of_a_run_whose_meta_is_odd_is_not_noted(tmp_path, text):
    if text is not None:
        (tmp_path / "meta.json").write_text(text)
    note_end(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ([] if text is None else [text])


def test_who_waits_for_whom_is_said_and_drawn(hang):
    waits = words.waits(hang)
    assert [node["name"] for node in waits["nodes"]] == [0, 1, 2]
    assert re.search(r"ranks? .* waits? in (barrier|all_reduce) 6 .* at step \d for rank", waits["lines"][0])
    assert len(waits["arrows"]) == sum(len(one["lacks"]) for one in hang.history.seen("hung")[0]["waiting"])


def test_a_run_that_did_not_hang_waits_for_nobody():
    assert words.waits(Seen(None, Golden().ends_well().history())) == {"lines": [], "nodes": []}


def test_stacks_of_the_ranks_that_were_ended_are_shown(hang):
    assert [title for title, _ in words.stacks(hang)] == ["rank 0", "rank 1", "rank 2"]
    assert all("stuck.py" in text for _, text in words.stacks(hang))


def test_a_strike_is_said_with_each_of_its_phases(once):
    seen = read_run(pictured.make(once, "kill").folder)
    (line,) = dict(words.facts(seen, draw(seen.history)))["strikes"]
    assert re.match(r"strike 0: kill at .*: armed at .*; fired at .*; landed at .* \(waitpid: SIGKILL\)$", line)


def test_the_output_of_each_rank_and_attempt_is_shown(once):
    titles = [title for title, _ in words.outputs(read_run(pictured.make(once, "kill").folder), [0, 1])]
    assert "rank 0 in attempt 0: stderr" in titles


def test_of_a_long_text_the_end_is_kept_and_the_cut_is_said():
    text = words.shown("x" * 150_000 + "\nthe end")
    assert text.startswith("… 50008 letters are left out\n") and text.endswith("\nthe end")


def test_evidence_that_no_json_can_be_is_still_text():
    (finding,) = words.findings(
        {"findings": [{"oracle": "o", "cause": "c", "evidence": json.loads('{"loss": NaN, "name": "\\u001b[31m"}')}]}
    )
    assert "NaN" in finding["evidence"] and "\x1b" not in finding["evidence"]
