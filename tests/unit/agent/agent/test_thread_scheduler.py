"""The threads of a rank under a schedule: real threads, and a stand-in for the Conductor."""

from __future__ import annotations

import queue
import threading
from itertools import pairwise
from typing import Any

import pytest

from breakrank_agent.agent.thread_scheduler import Member, Turns
from breakrank_agent.plan import Schedule
from breakrank_agent.protocol.trigger import PlanError
from breakrank_agent.schedules import Diverged, policy


class Line:
    """A stand-in for a rank's line to the Conductor: the messages of the rank, and the answers that it gets."""

    def __init__(self) -> None:
        self.told: queue.Queue[dict[str, Any]] = queue.Queue()
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()

    def tell(self, message: dict[str, Any]) -> None:
        self.told.put(message)

    def hear(self) -> dict[str, Any]:
        return self.answers.get()


def walk(chosen: Schedule, seed: str, threads: int = 2, moves: int = 4) -> tuple[str, list[int]]:
    """Let threads write their number, each in several moves; return the written numbers, and the decisions."""
    written: list[str] = []
    picked: dict[int, int] = {}
    line = Line()

    def note(member: Member) -> None:
        pick = member.take_pick()
        if pick is not None:
            picked[pick] = member.number

    turns = Turns(policy(chosen, seed), line, note, lambda ident: "")
    members = [turns.expect(daemon=False) for _ in range(threads)]

    def part(member: Member) -> None:
        turns.begin(member)
        for _ in range(moves):
            written.append(str(member.number))
            note(member)
            turns.point()
        note(member)
        turns.end(member)

    started = [threading.Thread(target=part, args=(member,), daemon=True) for member in members]
    for thread in started:
        thread.start()
    turns.leave()
    for thread in started:
        thread.join(60)
    return "".join(written), [picked[n] for n in sorted(picked)]


def test_a_seed_gives_one_interleaving_and_other_seeds_give_others() -> None:
    assert len({walk(Schedule("controlled", "random"), "7")[0] for _ in range(5)}) == 1
    assert len({walk(Schedule("controlled", "random"), str(seed))[0] for seed in range(20)}) > 10


@pytest.mark.parametrize("name", ["random", "pct"])
def test_the_picks_on_record_give_an_interleaving_again(name: str) -> None:
    for seed in range(5):
        written, picks = walk(Schedule("controlled", name, length=8), str(seed), threads=3)
        again, _ = walk(Schedule("controlled", "replay", choices=tuple(picks)), "another", threads=3)
        assert again == written


def test_serially_each_thread_moves_until_it_ends() -> None:
    assert walk(Schedule("controlled", "serial"), "0")[0] == "11112222"


def test_threads_that_wait_for_each_other_are_named() -> None:
    class Held:
        """A lock that nobody ever gives up."""

        def over(self) -> bool:
            return False

        def outside(self) -> bool:
            return False

        def block(self, limit: float | None) -> None:
            raise AssertionError("nobody else could end it")

        def words(self) -> str:
            return "lock 1, which thread-2 holds"

    line = Line()
    turns = Turns(policy(Schedule("controlled", "random"), "0"), line, lambda member: None, lambda ident: "train.py:3")
    member = turns.expect(daemon=False)

    def part() -> None:
        turns.begin(member)
        turns.wait(Held())

    threading.Thread(target=part, daemon=True).start()
    turns.leave()
    told = line.told.get(timeout=60)
    assert told["locks"] == [{"thread": "thread-1", "for": "lock 1, which thread-2 holds", "site": "train.py:3"}]


def test_while_a_thread_is_away_the_others_go_on_and_then_the_rank_listens() -> None:
    line, order = Line(), []
    turns = Turns(policy(Schedule("controlled", "serial"), "0"), line, lambda member: None, lambda ident: "")
    member = turns.expect(daemon=False)

    def part() -> None:
        turns.begin(member)
        order.append("the other thread")
        turns.end(member)

    threading.Thread(target=part, daemon=True).start()
    line.answers.put({"thread": 0, "turn": 5})
    answer = turns.ask({"collective": ["barrier", "0 1", 2]}, waits=True)
    order.append("the main thread")
    assert answer["turn"] == 5 and order == ["the other thread", "the main thread"]
    assert line.told.get()["more"] and "idle" in line.told.get()


def test_a_replay_that_parts_from_the_saved_run_says_where() -> None:
    replay = policy(Schedule("controlled", "replay", choices=(1, 0)), "0")
    assert replay.choose([0, 1], 0) == 1
    with pytest.raises(Diverged, match="turn 1 was number 0's"):
        replay.choose([1, 2], 1)
    with pytest.raises(Diverged, match="ended after 2 turns"):
        replay.choose([0, 1], 2)


def test_pct_changes_over_at_no_more_points_than_its_depth_allows() -> None:
    """Burckhardt et al., ASPLOS 2010: d - 1 priority change points, so at most d - 1 changes among ready threads."""
    for seed in range(50):
        chosen = policy(Schedule("controlled", "pct", depth=3, length=30), str(seed))
        moved = [chosen.choose([0, 1, 2], turn) for turn in range(30)]
        assert sum(one != other for one, other in pairwise(moved)) <= 2


def test_pct_meets_a_defect_of_depth_two_as_often_as_it_promises() -> None:
    """The defect: thread 1 moves between the two moves of thread 0. The promise: 1 in n × k^(d-1) = 2 × 3."""
    hits, seeds = 0, 600
    for seed in range(seeds):
        chosen = policy(Schedule("controlled", "pct", depth=2, length=3), str(seed))
        left, moved = {0: 2, 1: 1}, []
        for turn in range(3):
            moved.append(chosen.choose([n for n in left if left[n]], turn))
            left[moved[-1]] -= 1
        hits += moved == [0, 1, 0]
    assert hits >= seeds / 6 * 0.8


def test_an_unknown_policy_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(PlanError, match="pct, random, replay, serial"):
        policy(Schedule("controlled", "fair"), "0")
