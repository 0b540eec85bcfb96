"""Healthy jobs, drawn from their seeds, have no finding; the soak runs two thousand."""

from __future__ import annotations

from support.healthy_runs import objections

#: These seeds draw each kind of job, a rank that is late because it computes, and one that is late because it sleeps.
SEEDS = (*range(32), 113)


def test_nothing_is_objected_to_in_a_healthy_job(bench):
    assert objections(bench, SEEDS) == []
