"""A process is a rank by what its launcher has written down, and by nothing that looks like it."""

from __future__ import annotations

import pytest

from breakrank_agent.protocol.identity import Identity, find_identity

TASK = {"SLURM_PROCID": "3", "SLURM_NTASKS": "7", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0", "SLURM_NODEID": "1"}


def test_a_task_of_a_step_is_a_rank():
    assert find_identity(TASK) == Identity(3, 7, 1, None)


def test_a_batch_script_is_none_though_it_has_the_variables():
    batch = {name: value for name, value in TASK.items() if name != "SLURM_STEP_ID"}
    assert find_identity(batch) is None


def test_the_innermost_launcher_counts():
    assert find_identity({**TASK, "RANK": "0", "WORLD_SIZE": "2"}) == Identity(0, 2, None, None)


@pytest.mark.parametrize(
    ("tasks", "node", "here"),
    [("2(x3),1", "0", 2), ("2(x3),1", "2", 2), ("2(x3),1", "3", 1), ("4", "0", 4), ("2(x3),1", "4", None)],
)
def test_the_tasks_of_a_node_are_counted_as_slurm_writes_them(tasks, node, here):
    found = find_identity({**TASK, "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": node})
    assert found is not None
    assert found.local_world == here
