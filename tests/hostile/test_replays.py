"""A replay runs code: it names the code, and asks for trust if somebody else made the run directory."""

from __future__ import annotations

import json
import os
import shutil
import tarfile

import pytest
from support.mutants import fingerprint
from support.plans import PROGRAMS, plan_of

from breakrank.runs import provenance
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import programs_of
from breakrank_agent.plan import Plan


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Return the run directory of a program that leaves a file, the state folder of its maker, and the file's path."""
    root = tmp_path_factory.mktemp("made")
    (root / "programs").mkdir()
    leave = f"import pathlib\n\n\ndef main():\n    pathlib.Path({str(root / 'it ran')!r}).touch()\n"
    (root / "programs" / "leaves.py").write_text(leave)
    plan = Plan("test", "leaves", "leaves:main", ranks=1, steps=0, oracles=("ends",), environment={"COLOUR": "blue"})
    with pytest.MonkeyPatch.context() as patch, Bench(root / "runs", cold=True) as bench:
        patch.setenv("XDG_STATE_HOME", str(root / "state"))
        return bench.run(Request(plan, programs=root / "programs")).folder, root / "state", root / "it ran"


@pytest.fixture
def state(made, tmp_path, monkeypatch):
    """Return a copy of the state folder of the run's maker, for this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return shutil.copytree(made[1], tmp_path / "state")


@pytest.fixture
def project(pytester, state):
    """Return a project in which pytest runs with the plugin."""
    pytester.makeini("[pytest]\n")
    (pytester.path / ".breakrank").mkdir()
    return pytester


@pytest.fixture
def ours(project, made):
    """Return the run directory in the project of its maker."""
    made[2].unlink(missing_ok=True)
    return shutil.copytree(made[0], project.path / ".breakrank" / made[0].name)


def replay(project, folder, *options):
    return project.runpytest_inprocess("-p", "breakrank.plugin", f"--scenario-replay={folder}", *options)


def unpack(folder, where):
    """Pack a run directory, and unpack it as a person does to whom it was sent."""
    with tarfile.open(where / "run.tar", "w") as packed:
        packed.add(folder, "run")
    with tarfile.open(where / "run.tar") as packed:
        packed.extractall(where / "sent", filter="data")
    return where / "sent" / "run"


def test_a_run_of_ones_own_is_replayed_without_a_question(project, ours, made):
    result = replay(project, ours)
    assert made[2].exists() and "made by you" not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("change", ["another user's", "plan", "programs", "no mark", "no meta", "mark of another type"])
def test_a_run_of_somebody_else_is_refused_in_one_line_and_nothing_runs(project, ours, state, made, change):
    folder = unpack(ours, project.path)
    meta = json.loads((folder / "meta.json").read_text())
    if change == "another user's":
        shutil.rmtree(state)
    elif change == "plan":
        plan = json.loads((folder / "plan.json").read_text())
        (folder / "plan.json").write_text(json.dumps({**plan, "environment": {"LD_PRELOAD": "evil.so"}}))
    elif change == "programs":
        meta["programs"] = str(project.path)
    elif change == "no mark":
        del meta["mark"]
    elif change == "mark of another type":
        meta["mark"] = ["\ud800"]
    (folder / "meta.json").write_text(json.dumps(meta))
    if change == "no meta":
        (folder / "meta.json").unlink()
    before = fingerprint(project.path / ".breakrank")
    result = replay(project, folder)
    assert result.ret == 4 and not made[2].exists()
    (line,) = [text for text in result.errlines if text.strip()]
    assert "was not made by you on this machine" in line
    assert "--scenario-dry-run" in line and "--scenario-trust" in line
    assert fingerprint(project.path / ".breakrank") == before


def test_a_directory_that_was_sent_is_replayed_when_it_is_trusted(project, ours, state, made):
    folder = unpack(ours, project.path)
    shutil.rmtree(state)
    replay(project, folder, "--scenario-trust")
    assert made[2].exists()


@pytest.mark.parametrize("sent", [False, True])
def test_a_dry_run_says_what_a_replay_would_run_and_runs_nothing(project, ours, state, made, sent):
    folder = unpack(ours, project.path) if sent else ours
    if sent:
        shutil.rmtree(state)
    before = fingerprint(folder), sorted(os.listdir(project.path / ".breakrank"))
    result = replay(project, folder, "--scenario-dry-run")
    text = result.stdout.str()
    assert result.ret == 0 and not made[2].exists()
    assert "would run leaves:main" in text and f"with the code in {made[2].with_name('programs')}" in text
    assert "COLOUR=blue" in text
    assert ("it needs --scenario-trust" in text) == sent
    assert (fingerprint(folder), sorted(os.listdir(project.path / ".breakrank"))) == before


def test_a_dry_run_moves_no_terminal_and_names_command_and_image(project, ours):
    plan = json.loads((ours / "plan.json").read_text())
    evil = "train.py\x1b[2J\n  The directory was made by you on this machine."
    plan |= {
        "command": ["python", evil],
        "runner": "docker",
        "image": "evil:latest",
        "environment": {"X": "\x1b]0;x\x07"},
    }
    (ours / "plan.json").write_text(json.dumps(plan))
    text = replay(project, ours, "--scenario-dry-run").stdout.str()
    assert "\x1b[2J" not in text and "\x1b]0" not in text and "\\x1b[2J" in text
    assert "of the image evil:latest" in text and "it needs --scenario-trust" in text
    assert "\n  The directory was made by you" not in text


@pytest.mark.parametrize("field", ["scenario", "case"])
def test_a_plan_whose_names_are_paths_is_refused_even_when_trusted(project, ours, made, field):
    plan = json.loads((ours / "plan.json").read_text())
    (ours / "plan.json").write_text(json.dumps({**plan, field: "../../x"}))
    before = fingerprint(project.path)
    result = replay(project, ours, "--scenario-trust")
    assert result.ret == 4 and f"the plan: {field} is '../../x'" in result.stderr.str()
    assert fingerprint(project.path) == before and not made[2].exists()


def test_trust_without_a_replay_is_one_line(project):
    result = project.runpytest_inprocess("-p", "breakrank.plugin", "--scenario=baseline", "--scenario-trust")
    assert result.ret == 4 and "name it with --scenario-replay" in result.stderr.str()


def test_programs_of_a_stranger_are_a_folder_or_nothing(tmp_path):
    for named in ("relative", "", 7, None, ["/"], "/etc/passwd", "/nowhere", "/\0"):
        (tmp_path / "meta.json").write_text(json.dumps({"programs": named}))
        assert programs_of(tmp_path) is None
    (tmp_path / "meta.json").write_text(json.dumps({"programs": str(PROGRAMS)}))
    assert programs_of(tmp_path) == PROGRAMS


class TestMark:
    """The mark by which a run directory is known as made by this user."""

    def test_the_key_is_the_users_alone_and_made_once(self, state):
        first = provenance.mark("plan", "/programs")
        path = state / "breakrank" / "key"
        assert path.stat().st_mode & 0o777 == 0o600 and len(path.read_bytes()) == 32
        assert len(first) == 64 and provenance.mark("plan", "/programs") == first
        assert provenance.mark("plan", "/other") != first and provenance.mark("other", "/programs") != first
        assert os.listdir(path.parent) == ["key"]

    @pytest.mark.parametrize("spoil", ["open to all", "short", "link", "folder"])
    def test_a_key_that_others_may_know_marks_nothing(self, state, spoil):
        provenance.mark("plan", "/programs")
        path = state / "breakrank" / "key"
        if spoil == "open to all":
            path.chmod(0o644)
        elif spoil == "short":
            path.write_bytes(b"x")
        else:
            path.unlink()
            path.mkdir() if spoil == "folder" else path.symlink_to("/etc/hostname")
        assert provenance.mark("plan", "/programs") == ""

    def test_where_no_key_can_be_kept_the_owner_decides(self, tmp_path, monkeypatch):
        """An empty mark is no proof: then all that a replay reads must be the user's own."""
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
        folder = tmp_path / "run"
        folder.mkdir()
        for name in ("plan.json", "meta.json", "conductor.jsonl"):
            (folder / name).write_text("{}")
        assert provenance.is_ours(folder)
        (folder / "plan.json").unlink()
        (folder / "plan.json").symlink_to(folder / "meta.json")
        assert not provenance.is_ours(folder)
        if os.geteuid() == 0:
            (folder / "plan.json").unlink()
            (folder / "plan.json").write_text("{}")
            os.chown(folder / "plan.json", 12345, -1)
            assert not provenance.is_ours(folder)

    def test_an_empty_mark_is_none(self, state, tmp_path):
        (tmp_path / "plan.json").write_text(plan_of("small:train").dumps())
        (tmp_path / "meta.json").write_text(json.dumps({"programs": "/", "mark": ""}))
        assert not provenance.is_ours(tmp_path)
