"""A trace has the form that Perfetto reads: flows that begin and end, times that rise, names for all numbers."""

from __future__ import annotations

import gzip
import itertools
import json

import pytest
from support import pictured
from support.golden import Golden

from breakrank.timeline.reading import Seen, read_run
from breakrank.timeline.trace import trace, write_trace


@pytest.fixture(params=pictured.NAMES)
def events(request, once):
    """Return the events of the trace of each run, read back as JSON."""
    seen = read_run(pictured.make(once, request.param).folder)
    return json.loads(json.dumps(trace(seen)))["traceEvents"]


def of_phase(events, *phases):
    return [event for event in events if event["ph"] in phases]


def test_each_flow_has_one_start_and_one_end_in_the_order_of_time(events):
    flows = {}
    for event in of_phase(events, "s", "t", "f"):
        flows.setdefault(event["id"], []).append(event)
    for steps in flows.values():
        assert [event["ph"] for event in steps] == ["s", *["t"] * (len(steps) - 2), "f"]
        assert [event["ts"] for event in steps] == sorted(event["ts"] for event in steps)


def test_each_step_of_a_flow_lies_in_a_slice(events):
    slices = {(event["pid"], event["tid"], event["ts"]) for event in of_phase(events, "X")}
    assert all((event["pid"], event["tid"], event["ts"]) in slices for event in of_phase(events, "s", "t", "f"))


def test_times_rise_in_each_thread_and_nothing_lasts_less_than_no_time(events):
    last = {}
    for event in of_phase(events, "X", "i", "s", "t", "f"):
        place = event["pid"], event["tid"]
        assert event["ts"] >= last.get(place, 0)
        last[place] = event["ts"]
    assert all(event["dur"] >= 0 for event in of_phase(events, "X"))


def test_each_process_and_thread_that_is_used_has_a_name(events):
    processes = {event["pid"] for event in events if event["name"] == "process_name"}
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    used = {(event["pid"], event["tid"]) for event in of_phase(events, "X", "i", "s", "t", "f")}
    assert used <= threads and {process for process, _ in used} <= processes


def test_slices_of_one_thread_are_nested_or_apart(events):
    threads = {}
    for event in of_phase(events, "X"):
        threads.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in threads.values():
        for one, other in itertools.pairwise(spans):
            assert other[0] >= one[1] or other[1] <= one[1], (one, other)


def test_strikes_and_exits_are_instants_of_a_process(once):
    events = trace(read_run(pictured.make(once, "kill").folder))["traceEvents"]
    names = {event["name"] for event in events if event["ph"] == "i" and event["s"] == "p"}
    assert {"kill fired", "kill landed", "killed by SIGKILL"} <= names
    processes = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert "rank 1 (attempt 0): killed by SIGKILL" in processes


def test_collectives_under_way_at_once_lie_in_threads_of_their_own(tmp_path):
    job = Golden(ranks=1)
    for number in (1, 2):
        job[0].enters("collective", c=number, size=1)
    for number in (1, 2):
        job[0].writes("done", op="allreduce_", group="0", c=number)
    events = trace(Seen(tmp_path, job.ends_well().history()))["traceEvents"]
    assert len({event["tid"] for event in events if event["ph"] == "X" and event["cat"] == "collective"}) == 2


def test_a_file_whose_name_ends_with_gz_is_compressed(once, tmp_path):
    folder = pictured.make(once, "hang").folder
    text = gzip.decompress(write_trace(folder, tmp_path / "t.json.gz").read_bytes())
    assert json.loads(text) == json.loads(write_trace(folder, tmp_path / "t.json").read_bytes())
