"""Profiles of frameworks: one a file, plain facts, cheap."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from breakrank_agent.protocol.frameworks import DEFAULT, all_frameworks, profile
from breakrank_agent.protocol.frameworks.tensorflow import TASKS, cluster, place

ADDRESSES = ["one:1", "two:2", "three:3"]


def test_the_default_comes_first_and_each_has_the_name_of_its_file():
    assert list(all_frameworks()) == ["torch", "tensorflow"] and DEFAULT == "torch"
    assert all(one.name == name and name in one.modules for name, one in all_frameworks().items())


def test_to_import_the_profiles_imports_no_framework():
    asked = "import sys; from breakrank_agent.protocol.frameworks import all_frameworks as a; a(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert not {"torch", "tensorflow", "keras", "numpy"} & set(done.stdout.split())


def test_of_another_name_no_more_is_known_than_its_module():
    assert profile("none").warm == () and profile("none").cluster is None and not profile("none").environment
    assert profile("another").warm == ("another",) and profile("another").cure == "pip install another"


def test_tensorflows_tasks_are_numbered_by_their_type():
    asked = {TASKS: "chief,worker,worker"}
    config = json.loads(cluster(2, ADDRESSES, asked)["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    assert config["cluster"] == {"chief": ["one:1"], "worker": ["two:2", "three:3"]}


@pytest.mark.parametrize("tasks", ["worker,worker,worker", "chief,worker,worker", "chief,ps,worker"])
def test_a_rank_of_tensorflows_is_found_again_in_its_environment(tasks):
    found = [place(cluster(rank, ADDRESSES, {TASKS: tasks})) for rank in range(3)]
    assert found == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    "config",
    [
        *(
            "",
            "[]",
            "{",
            '{"cluster": {"worker": ["one:1"]}}',
            '{"cluster": 5, "task": {"type": "worker", "index": 0}}',
        ),
        '{"cluster": {"worker": ["one:1"]}, "task": {"type": "evaluator", "index": 0}}',
    ],
)
def test_a_task_outside_of_the_cluster_has_no_place(config):
    assert place({"TF_CONFIG": config}) is None
    assert place({}) is None


def test_tensorflows_tasks_are_all_workers_unless_the_case_says_otherwise():
    config = json.loads(cluster(2, ADDRESSES, {})["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 2} and config["cluster"] == {"worker": ADDRESSES}


def test_tasks_for_another_number_of_ranks_are_refused():
    with pytest.raises(ValueError, match="2 tasks for 3 ranks"):
        cluster(0, ADDRESSES, {TASKS: "chief,worker"})
