"""The environment of a rank, and the copy of the agent that goes on its path."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from breakrank.runners.process import ProcessRunner, stage_agent
from breakrank_agent.plan import Plan

PLAN = Plan("test", "case", "some:main", framework="tensorflow", ranks=2)


def test_what_all_ranks_have_in_common_is_known_before_they_have_addresses():
    runner = ProcessRunner(SimpleNamespace(id="1"), Path("agent"), Path("programs"))
    before = runner._environment(PLAN, 0, 0, 0)
    assert "TF_CONFIG" not in before
    port = runner._find_port(PLAN)
    try:
        after = runner._environment(PLAN, 1, 0, port)
        assert json.loads(after["TF_CONFIG"]) == {
            "cluster": {"worker": runner._addresses()},
            "task": {"type": "worker", "index": 1},
        }
        assert len(set(runner._addresses())) == 2
    finally:
        runner._release_ports()


def make_source(folder: Path, says: str = "one") -> Path:
    """Make a package with one module."""
    source = folder / "agent_like"
    source.mkdir(parents=True)
    (source / "__init__.py").touch()
    (source / "said.py").write_text(f"def where():\n    return {says!r}, where.__code__.co_filename\n")
    return source


def test_ranks_need_not_compile_the_agent_and_its_frames_are_called_by_its_own_place(tmp_path):
    staged = stage_agent(tmp_path, make_source(tmp_path / "installed"))
    program = "import agent_like.said; print(*agent_like.said.where())"
    command = [sys.executable, "-S", "-v", "-c", f"import sys; sys.path.insert(0, {str(staged)!r}); {program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["one", str(staged / "agent_like/said.py")]
    (compiled,) = (staged / "agent_like/__pycache__").glob("said.*.pyc")
    assert f"code object from '{compiled}'" in done.stderr


def test_an_equal_copy_of_the_agent_is_used_again_and_another_one_is_not(tmp_path):
    one = make_source(tmp_path / "one")
    staged = stage_agent(tmp_path, one)
    made = staged.stat().st_mtime_ns
    assert stage_agent(tmp_path, make_source(tmp_path / "same")) == staged
    assert staged.stat().st_mtime_ns == made
    assert stage_agent(tmp_path, make_source(tmp_path / "other", "two")) != staged
    assert not [path for path in tmp_path.glob("agent-*") if path.suffix]


def test_the_agent_is_compiled_even_if_its_source_may_not_be_written_beside(tmp_path, monkeypatch):
    source = make_source(tmp_path / "installed")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    staged = stage_agent(tmp_path, source)
    assert not (source / "__pycache__").exists()
    assert list((staged / "agent_like/__pycache__").glob("said.*.pyc"))
