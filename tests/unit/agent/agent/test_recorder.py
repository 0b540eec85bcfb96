"""The agent's records when several threads write, and after a fork."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from pathlib import Path

from breakrank_agent.agent.agent import Agent
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.log import LogReader, LogWriter, create_log


def begun(folder: Path) -> tuple[Agent, LogReader]:
    """Return an agent of one rank, and the other end of its log."""
    path = str(folder / "rank-0.log")
    create_log(path, 1 << 21)
    return Agent(Plan("test", "test", "small:train", ranks=1), 0, 0, LogWriter(path), None), LogReader(path)


def test_records_of_several_threads_are_whole_and_counted_apart(tmp_path: Path) -> None:
    """Goal: the main thread, which takes no lock while it is alone, is not alone for most of its points."""
    agent, reader = begun(tmp_path)
    each = 2000
    # A thread that begins when another one is over may get its identity.
    together = threading.Barrier(4)

    def work() -> None:
        together.wait()
        for number in range(each):
            agent.reach("collective", ',"c":', number + 1)
        together.wait()

    others = [threading.Thread(target=work) for _ in range(3)]
    for other in others:
        other.start()
    work()
    for other in others:
        other.join()
    events = [json.loads(record) for record in reader.drain()]
    assert Counter(e["seq"] for e in events) == {f: each for f in ("main", "thread-1", "thread-2", "thread-3")}
    for sequence in ("main", "thread-1", "thread-2", "thread-3"):
        own = [(e["n"], e["visit"], e["c"]) for e in events if e["seq"] == sequence]
        assert own == [(number, number + 1, number + 1) for number in range(each)]


def test_a_child_that_the_rank_forks_records_nothing(tmp_path: Path) -> None:
    agent, reader = begun(tmp_path)
    agent.reach("load")
    pid = os.fork()
    if pid == 0:
        agent.reach("forward")
        agent.record("note", text="from the child") if agent.here else None
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    agent.reach("forward")
    assert [json.loads(record)["point"] for record in reader.drain()] == ["load", "forward"]


def test_a_thread_that_gets_an_ended_threads_identity_has_a_sequence_of_its_own(tmp_path: Path) -> None:
    agent, reader = begun(tmp_path)
    identities = []

    def work() -> None:
        identities.append(threading.get_ident())
        agent.reach("load")

    for _ in range(20):
        other = threading.Thread(target=work)
        other.start()
        other.join()
    assert len(set(identities)) < len(identities), "no identity came again"
    assert len({json.loads(record)["seq"] for record in reader.drain()}) == len(identities)


def test_a_list_of_numbers_reads_the_same_whichever_way_it_is_recorded(tmp_path: Path) -> None:
    agent, reader = begun(tmp_path)
    assert agent.count("load", "indices", [3, 1, 2])
    agent.payload("load", indices=[3, 1, 2])
    few, full = (json.loads(record) for record in reader.drain())
    assert {**few, "n": 1, "t": 0} == {**full, "t": 0}
    assert list(few) == list(full)


def test_what_is_no_list_of_numbers_or_has_to_wait_for_others_is_left_to_be_recorded_in_full(tmp_path: Path) -> None:
    agent, reader = begun(tmp_path)
    for numbers in (["a"], [1.5], [2**40], [None], list(range(5000))):
        assert not agent.count("load", "indices", numbers)
    other = threading.Thread(target=agent.reach, args=("load",))
    other.start()
    other.join()
    assert not agent.count("load", "indices", [1]), "the main thread is not alone any more"
    assert [json.loads(record)["kind"] for record in reader.drain()] == ["point"]
