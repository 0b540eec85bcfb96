"""Events of two nodes that are no further apart than their clocks may be wrong have no order."""

from __future__ import annotations

import pytest

from breakrank.analysis.moments import error_of, in_order
from breakrank.history.reader import History, RankHistory

#: Rank 0 is on one node, ranks 1 and 2 on another. The errors are 2 and 3 ms.
NODES = {0: "one", 1: "two", 2: "two"}
ERRORS = {"one": 0.002, "two": 0.003}


def ordered(moments, nodes=NODES):
    ranks = {(0, number): RankHistory(0, number) for number in moments}
    spawned = [
        {
            "kind": "spawned",
            "t": 0.0,
            "attempt": 0,
            "rank": number,
            "pid": 1,
            **({"node": nodes[number]} if nodes else {}),
        }
        for number in moments
    ]
    clocks = [{"kind": "clock", "t": 0.0, "node": n, "offset_s": 0.0, "error_s": e} for n, e in ERRORS.items()]
    history = History(ranks, tuple([*spawned, *(clocks if nodes else [])]))
    found = in_order(history, ranks.values(), lambda lived: moments[lived.rank])
    return history, [lived.rank for lived in found]


@pytest.mark.parametrize(
    ("moments", "order"),
    [
        ({0: 1.004, 1: 1.000}, [0, 1]),
        ({0: 1.006, 1: 1.000}, [1, 0]),
        ({0: 1.000, 1: 1.004}, [0, 1]),
        # Two ranks of one node have one clock.
        ({1: 1.001, 2: 1.000}, [2, 1]),
        ({0: 1.004, 1: 1.0001, 2: 1.000}, [2, 0, 1]),
    ],
)
def test_ranks_of_two_nodes_are_ordered_only_beyond_the_error(moments, order):
    assert ordered(moments)[1] == order


def test_ranks_of_this_machine_are_always_ordered():
    history, order = ordered({0: 1.000002, 1: 1.000001, 2: 1.0}, nodes={})
    assert order == [2, 1, 0]
    assert error_of(history, history.ranks[0, 0]) == 0.0
