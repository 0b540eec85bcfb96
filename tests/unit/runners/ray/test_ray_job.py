"""The environment that workers of a Ray cluster are to have, beside what the script asks for."""

from __future__ import annotations

import os

import pytest

from breakrank_agent.protocol.entry import HOME, RAY_HOOK, SECRET
from breakrank_agent.start import ray_job


@pytest.fixture(autouse=True)
def entered(monkeypatch):
    monkeypatch.setenv(HOME, "breakrank-home")
    monkeypatch.setenv(SECRET, "secret")
    monkeypatch.delenv(RAY_HOOK, raising=False)


def test_workers_get_the_agent_and_what_it_calls():
    variables = ray_job.add_environment(None)["env_vars"]
    agent, rest = variables.pop("PYTHONPATH").split(os.pathsep)
    assert os.path.isdir(os.path.join(agent, "breakrank_agent")) and rest == "${PYTHONPATH}"
    assert variables == {HOME: "breakrank-home", SECRET: "secret"}


def test_what_the_script_asks_for_stays():
    asked = {"pip": ["rich"], "env_vars": {"PYTHONPATH": "/theirs", "NAME": "value"}}
    given = ray_job.add_environment(asked)
    assert given["pip"] == ["rich"] and given["env_vars"]["NAME"] == "value"
    assert given["env_vars"]["PYTHONPATH"].endswith(f"{os.pathsep}/theirs")
    assert asked["env_vars"] == {"PYTHONPATH": "/theirs", "NAME": "value"}


def test_a_hook_of_the_users_is_asked_first(monkeypatch):
    monkeypatch.setenv(RAY_HOOK, f"{__name__}.users_hook")
    assert ray_job.add_environment({"env_vars": {"A": "1"}})["env_vars"]["FROM"] == "user"


def test_without_an_address_nothing_is_added(monkeypatch):
    monkeypatch.delenv(HOME)
    monkeypatch.delenv(SECRET)
    assert ray_job.add_environment({"pip": ["rich"]}) == {"pip": ["rich"]}


def users_hook(runtime_env):
    """Add a variable, as a user's hook may."""
    return {"env_vars": {**runtime_env["env_vars"], "FROM": "user"}}
