"""Healthy jobs, drawn from their seeds, have no finding; the soak runs two thousand."""

from __future__ import annotations

from support.healthy_runs import objections

#: These seeds draw each kind of job, most of them with two and with three ranks, a rank that is late because it
#: computes, and one that is late because it sleeps.
SEEDS = (0, 1, 2, 3, 4, 5, 7, 12, 15, 16, 17, 20, 21, 24, 26, 30, 31, 113)


def test_nothing_is_objected_to_in_a_healthy_job(bench):
    assert objections(bench, SEEDS) == []
