"""The engine is found as docker's own command finds it, and a missing one is reported with its place."""

from __future__ import annotations

import hashlib
import json
import socket

import pytest

from breakrank import doctor
from breakrank.errors import BreakrankError
from breakrank.runners.docker import endpoint


@pytest.fixture(autouse=True)
def configuration(tmp_path, monkeypatch):
    """Return a new folder as docker's configuration, so that nothing else names an engine."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path


def add_context(folder, name: str, host: str) -> None:
    meta = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


def test_the_environment_goes_before_a_context_and_that_before_the_usual_place(configuration, monkeypatch):
    assert endpoint.address() == endpoint.USUAL
    add_context(configuration, "rootless", "unix:///one.sock")
    add_context(configuration, "other", "unix:///two.sock")
    (configuration / "config.json").write_text('{"currentContext": "rootless"}')
    assert endpoint.address() == "unix:///one.sock"
    monkeypatch.setenv("DOCKER_CONTEXT", "other")
    assert endpoint.address() == "unix:///two.sock"
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    assert endpoint.address() == endpoint.USUAL
    monkeypatch.setenv("DOCKER_HOST", "unix:///three.sock")
    assert endpoint.address() == "unix:///three.sock"


@pytest.mark.parametrize("held", [None, "{", "[]", '{"Endpoints": {}}', '{"Endpoints": []}'])
def test_a_context_that_names_no_engine_is_one_line(configuration, monkeypatch, held):
    add_context(configuration, "gone", "")
    (meta,) = configuration.glob("contexts/meta/*/meta.json")
    meta.unlink() if held is None else meta.write_text(held)
    monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    with pytest.raises(BreakrankError, match="docker's context gone names no engine; docker context use default"):
        endpoint.address()
    assert doctor._docker().startswith("docker's context gone names no engine")


@pytest.mark.parametrize("text", ["{", "[]", '{"currentContext": ""}'])
def test_a_configuration_that_says_nothing_leaves_the_usual_place(configuration, text):
    (configuration / "config.json").write_text(text)
    assert endpoint.address() == endpoint.USUAL


def test_the_doctor_looks_where_a_context_says_and_knows_the_engine_that_runs_without_root(configuration, monkeypatch):
    path = configuration / "docker.sock"
    add_context(configuration, "rootless", f"unix://{path}")
    monkeypatch.setenv("DOCKER_CONTEXT", "rootless")
    assert doctor._docker() == (
        f"no Docker daemon at {path}; start Docker (in a clone, as root: make docker), or set DOCKER_HOST"
    )
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        assert "does not answer (Connection refused); start it, or join the group docker" in doctor._docker()
        engine.listen()
        assert doctor._docker() == ""
        monkeypatch.setenv("DOCKER_HOST", "unix:///no/engine")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(configuration))
        cure = f"you have one that runs without root: export DOCKER_HOST=unix://{path}"
        assert doctor._docker() == f"no Docker daemon at /no/engine; {cure}"
