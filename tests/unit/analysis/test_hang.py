"""Hang diagnosis of ranks that can never go on, from hand-made logs: the cause, the blame and the evidence."""

from __future__ import annotations

from typing import Any

import pytest

from breakrank.analysis.groupings import explain_groupings
from breakrank.analysis.hang import explain, message_cycle
from breakrank.analysis.rendezvous import explain_meeting, suspect_meeting
from breakrank.analysis.wait_for import Ledger, describe, lags

WORLD = [0, 1, 2]
ENTERS = {"kind": "rendezvous", "phase": "enter", "n": 0, "seq": "main", "step": 0, "t": 0.0}

GROUPS = {"kind": "grouping", "n": 0, "seq": "main", "step": 0, "t": 0.0}


class Log:
    """The log of one rank, written like a sentence."""

    def __init__(self, rank: int, world: list[int] = WORLD) -> None:
        self.rank, self.step, self.ledger = rank, 1, Ledger()
        self._counts: dict[Any, int] = {}
        self.groups("0", world)

    def groups(self, name: str, ranks: list[int]) -> Log:
        self.ledger.take({"kind": "group", "group": name, "ranks": ranks, "timeout_s": 1800.0})
        return self

    def waits(self, op: str, group: str = "0", **facts: Any) -> Log:
        """Issue a collective, and do not complete it."""
        return self._issue(op, group, facts)

    def does(self, op: str, group: str = "0", **facts: Any) -> Log:
        """Issue a collective and complete it."""
        self._issue(op, group, facts)
        self.ledger.take({**self._last, "kind": "done"})
        return self

    def next(self) -> Log:
        self.step += 1
        return self

    def _issue(self, op: str, group: str, facts: dict[str, Any]) -> Log:
        peer = facts.get("peer")
        key = (group, op, peer) if peer is not None else group
        number = self._counts[key] = self._counts.get(key, 0) + 1
        event = {"kind": "point", "point": "collective", "seq": "main", "step": self.step, "op": op, "group": group}
        self._last = {**event, ("c" if peer is None else "p"): number, **facts}
        self.ledger.take(self._last)
        return self


def told(*logs: Log, **lost: list[int]) -> tuple[str, tuple[int, ...]]:
    found = explain({log.rank: log.ledger for log in logs}, lost.get("gone", []), lost.get("stopped", []))
    return found.why, found.peers


def trained(rank: int, world: list[int] = WORLD) -> Log:
    """Return the log of a rank that has made two steps of an all-reduce and a barrier, and begins the third."""
    log = Log(rank, world)
    for _ in range(2):
        log.does("allreduce_", site="a:1").does("barrier", site="a:2").next()
    return log


def test_of_three_the_one_in_another_collective_is_odd():
    logs = [trained(r).waits("allreduce_", site="a:1") for r in (0, 2)]
    assert told(trained(1).waits("barrier", site="a:2"), *logs) == ("participant missing", (1,))


def test_of_two_the_one_unlike_its_own_earlier_steps_is_odd():
    other, odd = trained(1, [0, 1]).waits("allreduce_", site="a:1"), trained(0, [0, 1]).waits("barrier", site="a:2")
    assert told(odd, other) == ("participant missing", (0,))


def test_of_two_the_one_that_left_out_the_end_of_its_last_step_is_odd():
    late = Log(1, [0, 1])
    for _ in range(2):
        late.does("allreduce_").does("barrier").next()
    late.does("allreduce_").next().waits("allreduce_")
    right = trained(0, [0, 1]).does("allreduce_", site="a:1").waits("barrier", site="a:2")
    assert told(right, late) == ("participant missing", (1,))


def test_of_two_without_an_earlier_step_nobody_is_odd():
    logs = Log(0, [0, 1]).waits("barrier"), Log(1, [0, 1]).waits("allreduce_")
    assert told(*logs) == ("participant missing", ())


def test_other_roots_can_never_be_full():
    logs = [Log(r).waits("broadcast_", root=2 if r == 2 else 0) for r in WORLD]
    assert told(*logs) == ("participant missing", (2,))


@pytest.mark.parametrize(("op", "answer", "why"), [
    ("recv_", "send", "unmatched receive"),
    ("send", "recv_", "unmatched send"),
])  # fmt: skip
def test_a_message_is_unmatched_whose_other_end_went_another_way(op, answer, why):
    logs = [Log(r, [0, 1]) for r in (0, 1)]
    for log, call in zip(logs, (op, answer), strict=True):
        for _ in range(2):
            log.does(call, peer=1 - log.rank).does("barrier").next()
    assert told(logs[0].waits(op, peer=1), logs[1].waits("barrier")) == (why, (1,))


@pytest.mark.parametrize("op", ["send", "recv_"])
def test_ranks_that_wait_in_messages_for_each_other_in_a_circle_are_all_named_and_none_is_blamed(op):
    pair = [Log(r, [0, 1]).waits(op, peer=1 - r) for r in (0, 1)]
    assert told(*pair) == ("message cycle", ())
    ring = [Log(r).waits(op, peer=(r + 1) % 3) for r in WORLD]
    assert told(*ring) == ("message cycle", ())
    beside = [Log(0).waits(op, peer=1), Log(1).waits(op, peer=0), Log(2).waits("barrier")]
    assert told(*beside) == ("message cycle", ())


def test_of_a_circle_the_one_unlike_its_own_earlier_steps_is_odd():
    first, second = Log(0, [0, 1]), Log(1, [0, 1])
    for _ in range(2):
        first.does("send", peer=1).does("recv_", peer=1).next()
        second.does("recv_", peer=0).does("send", peer=0).next()
    assert told(first.waits("recv_", peer=1), second.waits("recv_", peer=0)) == ("message cycle", (0,))


def test_a_circle_has_those_alone_that_wait_for_each_other():
    assert message_cycle({0: [1], 1: [2], 2: [1], 3: [0]}) == [1, 2]
    assert message_cycle({2: [0], 0: [1], 1: [2]}) == [0, 1, 2]
    assert message_cycle({0: [1, 2], 1: [0, 2], 2: [0, 1]}) == [0, 1], "each may receive from any"
    assert message_cycle({0: [1], 1: []}) == message_cycle({0: [1]}) == message_cycle({}) == []


def test_a_send_that_left_a_work_is_no_wait_while_the_rank_is_in_another_call():
    sent = {"peer": 1, "async": True}
    found = explain({0: Log(0, [0, 1]).waits("send", **sent).waits("recv_", peer=1).ledger, 1: Log(1, [0, 1]).ledger})
    assert found.waits[0].event["op"] == "recv_"
    logs = [Log(r, [0, 1]).waits("send", **{**sent, "peer": 1 - r}).waits("allreduce_") for r in (0, 1)]
    assert told(*logs) == ("deadlock", ())
    alone = [Log(r, [0, 1]).waits("send", **{**sent, "peer": 1 - r}) for r in (0, 1)]
    assert told(*alone) == ("message cycle", ())


# --- groups that ranks do not make alike


def grouped(*making: tuple[int, list[int] | None], **facts: Any) -> dict[int, Ledger]:
    """Return the logs of ranks each of which is in the making of the last of its groups."""
    ledgers = {rank: Ledger() for rank in WORLD}
    for rank, ranks in making:
        if ledgers[rank].is_grouping:
            ledgers[rank].take({**GROUPS, "phase": "leave", "ranks": ranks})
        ledgers[rank].take({**GROUPS, "phase": "enter", "ranks": ranks, "site": f"a:{rank}", **facts})
    return ledgers


def test_groups_that_ranks_make_in_another_order_are_named_and_the_odd_rank_blamed():
    found = explain_groupings(grouped((0, [0, 1]), (1, None), (2, [0, 1])))
    assert found is not None and (found.why, found.peers) == ("group mismatch", (1,))
    said = "call 1 of new_group makes a group of [0, 1] on rank 0 (a:0), of all ranks on rank 1 (a:1) and of [0, 1]"
    assert found.shown_by == f"{said} on rank 2 (a:2)"


def test_of_ranks_that_make_their_own_groups_alone_nobody_is_odd():
    found = explain_groupings(grouped((0, [0, 1]), (1, [1, 0]), (2, [2])))
    assert found is not None and (found.why, found.peers) == ("group mismatch", ())


def test_nothing_is_said_against_groups_that_all_make_or_that_only_members_have_to():
    assert explain_groupings(grouped((0, [0, 1]), (1, [1, 0]), (2, [0, 1]))) is None
    assert explain_groupings(grouped((0, None), (1, [0, 1, 2]))) is None, "rank 2 has not come yet"
    assert explain_groupings(grouped((0, [0, 1]), (1, [0, 1]), (2, [2]), local=True)) is None
    anew = grouped((0, [0, 1]), (1, [2]))
    for ledger in anew.values():
        ledger.take({**ENTERS, "rank": 0, "world": 3, "master": "m:1", "backend": "gloo", "timeout_s": None})
        ledger.take({**GROUPS, "phase": "enter", "ranks": None})
    assert explain_groupings(anew) is None, "a world that is made anew counts its groups anew"


def test_a_send_that_is_received():
    answered = [Log(0, [0, 1]).waits("send", peer=1), Log(1, [0, 1]).waits("recv_any_source_", peer=-1)]
    assert told(*answered) == ("deadlock", ())


def test_groups_in_the_other_order_are_crossed():
    logs = [Log(r, [0, 1]).groups("1", [0, 1]).groups("2", [0, 1]) for r in (0, 1)]
    for log in logs:
        log.does("allreduce_", "1").does("allreduce_", "2").next()
    assert told(logs[0].waits("allreduce_", "1"), logs[1].waits("allreduce_", "2")) == ("crossed process groups", (1,))


def test_a_rank_in_no_collective_is_locked_also_while_a_work_of_its_own_is_complete():
    waiting = [trained(r).waits("allreduce_") for r in (0, 2)]
    assert told(trained(1), *waiting) == ("blocked in a lock", (1,))
    logs = [Log(r).waits("allreduce_") for r in WORLD]
    assert told(logs[0].waits("barrier"), logs[2].waits("barrier"), logs[1]) == ("blocked in a lock", (1,))


def test_who_is_gone_or_stopped_comes_first_if_it_is_waited_for():
    logs = [trained(0).waits("barrier"), trained(1), trained(2).waits("barrier")]
    assert told(*logs, gone=[1]) == ("peer ended", (1,))
    assert told(*logs, stopped=[1]) == ("peer stopped", (1,))


def test_a_rank_that_had_nothing_more_to_do_is_not_waited_for():
    logs = [Log(r).groups("1", [0, 1]) for r in WORLD]
    assert (
        told(logs[0].waits("barrier", "1"), logs[1].waits("allreduce_", "1"), logs[2], gone=[2])[0]
        == "participant missing"
    )


def test_where_everything_is_matched_it_is_a_deadlock():
    assert told(*(Log(r).waits("allreduce_") for r in WORLD)) == ("deadlock", ())


def test_a_wait_is_said_as_people_call_it():
    event = {"op": "allreduce_", "group": "0", "c": 41, "shapes": [[1024]], "dtype": "float32", "site": "train.py:88"}
    assert describe(event) == "all_reduce 41 (1024 × float32, train.py:88)"
    assert describe({"op": "recv_", "group": "3", "p": 2, "peer": -1}) == "recv 2 from any rank of group 3"
    assert describe({"op": "", "point": "collective", "after": "barrier", "c": 5}) == "the code after barrier 5"


def test_who_took_a_number_and_never_entered_its_collective_is_waited_for():
    first, second = Log(0, [0, 1]).does("allreduce_").waits("allreduce_"), Log(1, [0, 1]).does("allreduce_")
    second.waits("allreduce_", c=3)
    found = explain({0: first.ledger, 1: second.ledger})
    assert found.why == "participant missing"
    assert {rank: (wait.event["c"], wait.lacks) for rank, wait in found.waits.items()} == {0: (2, (1,)), 1: (3, (0,))}


def test_a_rank_lags_while_it_is_in_what_is_over_elsewhere():
    through, inside = Log(0).does("allreduce_"), Log(1).waits("allreduce_")
    assert lags(inside.ledger, through.ledger) and not lags(through.ledger, inside.ledger)
    ahead = Log(2).does("allreduce_").waits("allreduce_")
    assert not lags(ahead.ledger, through.ledger), "what the other never enters does not keep it"
    assert not lags(inside.ledger, Log(0).waits("allreduce_").ledger)


def test_how_long_a_wait_lasts_depends_on_whether_it_is_for_a_silent_one():
    log = Log(0)
    log.ledger.take({"kind": "group", "group": "1", "ranks": WORLD, "timeout_s": None, "lost_s": 10.0})
    assert (log.ledger.timeout_s("1"), log.ledger.timeout_s("1", lost=True)) == (None, 10.0)
    assert log.ledger.timeout_s("0", lost=True) == 1800.0


# --- ranks that do not find each other


def meeting(*entered: tuple[int, dict[str, Any]]) -> dict[int, Ledger]:
    """Return the logs of ranks of which these have entered the rendezvous, each with its own deviation."""
    ledgers = {rank: Ledger() for rank in WORLD}
    for rank, other in entered:
        said = {"rank": rank, "world": 3, "master": "m:1", "backend": "gloo", "interface": "lo", "timeout_s": None}
        ledgers[rank].take({**ENTERS, **said, **other})
    return ledgers


@pytest.mark.parametrize(("other", "why"), [
    ({"world": 4}, "world size mismatch"),
    ({"master": "m:2"}, "master mismatch"),
    ({"backend": "mpi"}, "backend mismatch"),
    ({"rank": 0}, "duplicate rank"),
])  # fmt: skip
def test_the_one_that_says_something_else_is_odd(other, why):
    found = explain_meeting(meeting((0, {}), (1, {}), (2, other)), [], [], {})
    assert found is not None and (found.why, found.peers) == (why, (2,))


def test_of_two_that_disagree_the_one_unlike_their_launcher_is_odd():
    ledgers = {rank: ledger for rank, ledger in meeting((0, {"world": 2}), (1, {})).items() if rank < 2}
    found = explain_meeting(ledgers, [], [], {"world": 2})
    assert found is not None and (found.why, found.peers) == ("world size mismatch", (1,))


def test_who_never_comes_is_missing():
    found = explain_meeting(meeting((0, {}), (2, {})), [1], [], {})
    assert found is not None and (found.why, found.peers, sorted(found.waits)) == ("rank missing", (1,), [0, 2])
    stopped = explain_meeting(meeting((0, {}), (2, {})), [], [1], {})
    assert stopped is not None and (stopped.why, stopped.peers) == ("peer stopped", (1,))


@pytest.mark.parametrize("name", ["", "cpu:gloo", "cuda:nccl,cpu:gloo"])
def test_a_backend_that_is_named_another_way_is_no_other_one(name):
    found = explain_meeting(meeting((0, {}), (1, {"backend": name})), [2], [], {})
    assert found is not None and (found.why, found.peers) == ("rank missing", (2,))
    assert explain_meeting(meeting((0, {}), (1, {}), (2, {"backend": name})), [], [], {}) is None


def test_a_full_meeting_beside_another_is_left_alone():
    pair = [(rank, {"rank": rank, "world": 2, "master": "m:7"}) for rank in (0, 1)]
    assert explain_meeting(meeting(*pair), [], [], {}) is None
    found = explain_meeting(meeting(*pair, (2, {"rank": 1, "world": 2, "master": "m:8"})), [], [], {})
    assert found is not None and (found.why, found.peers, sorted(found.waits)) == ("rank missing", (0,), [2])


@pytest.mark.parametrize(("name", "said", "why"), [
    ("interface", "eth0", "interface mismatch"),
    ("cluster", "m:1,m:3", "cluster mismatch"),
])  # fmt: skip
def test_what_ranks_may_disagree_on_is_suspected_of_a_full_meeting_only(name, said, why):
    ledgers = meeting((0, {}), (1, {}), (2, {name: said}))
    suspected = suspect_meeting(ledgers)
    assert explain_meeting(ledgers, [], [], {}) is None
    assert suspected is not None and (suspected.why, suspected.peers) == (why, (2,))
    assert suspect_meeting(meeting((0, {}), (1, {}), (2, {}))) is None
    proxied = suspect_meeting(meeting((0, {"proxy": ""}), (1, {"proxy": "http://p:1"})))
    assert proxied is not None and (proxied.why, proxied.peers) == ("proxy in path", (1,))


def test_nothing_is_said_against_a_rendezvous_in_which_all_agree():
    assert explain_meeting(meeting((0, {}), (1, {}), (2, {})), [], [], {}) is None
