"""A machine or an account that gives too little: the run works, or it is refused in one line with the cure."""

from __future__ import annotations

import os
import resource

import pytest
from support.ground import environment, pytest_in, small_disks

from breakrank.errors import BreakrankError
from breakrank.host.user_limits import check_quotas

HEAD = '"""Made up."""\nfrom breakrank import *\nSCENARIO = Scenario(family="sync", cases=[{cases}])\n'
FAKE = ("breakrank.plugin", "support.fake_bench")
#: Runs a command as an ordinary user of a user namespace, without any right over the machine.
NOBODY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


@pytest.fixture
def made_up(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nscenario_paths = mine\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sound.py").write_text(HEAD.format(cases="Case('a', 'fake:sound', SURVIVED)"))
    return tmp_path


def assert_refused(done, words):
    """One line that says what to do, and pytest's exit code for bad usage."""
    assert done.returncode == 4, done.stdout + done.stderr
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert len(lines) == 1 and words in lines[0], lines


def limited(option, value):
    return ["sh", "-c", f'ulimit {option} {value}; exec "$0" "$@"']


@pytest.mark.parametrize("files", [20, 64, 200])
def test_too_few_open_files_are_said_with_how_many_are_needed(made_up, files):
    done = pytest_in(made_up, "--scenario=sound", wrapped=limited("-Sn", files), plugins=FAKE)
    assert_refused(done, f"{files} open files are too few for 2 ranks: ulimit -n 384")


def test_as_many_open_files_as_are_asked_for_are_enough(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = pytest_in(tmp_path, "--scenario=baseline::torch-ddp", wrapped=limited("-n", 384))
    assert "1 as recorded" in done.stdout, done.stdout + done.stderr


def test_too_few_processes_are_said_with_how_many_are_needed(made_up):
    done = pytest_in(made_up, "--scenario=sound", wrapped=[*NOBODY, "prlimit", "--nproc=30:30"], plugins=FAKE)
    assert_refused(done, "30 processes are too few for 2 ranks: ulimit -u ")


def test_root_is_not_held_to_a_number_of_processes_and_neither_are_we(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (10**6 if what == resource.RLIMIT_NOFILE else 1, 10**6))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    check_quotas(64)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BreakrankError, match="1 processes are too few for 64 ranks"):
        check_quotas(64)


def test_the_usual_limits_are_enough_for_the_most_ranks(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024 if what == resource.RLIMIT_NOFILE else -1, -1))
    check_quotas(64)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (-1, -1))
    check_quotas(64)


@small_disks
def test_without_proc_it_is_one_line(made_up):
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']
    for option in ("--scenario=sound", "--scenario-doctor"):
        done = pytest_in(made_up, option, wrapped=hidden, plugins=("breakrank.plugin",))
        assert_refused(done, "there is no /proc, from which ranks are watched; mount it")


def test_runs_that_may_not_be_written_are_one_line(made_up):
    made_up.chmod(0o555)
    try:
        assert_refused(
            pytest_in(made_up, "--scenario=sound", wrapped=NOBODY, plugins=FAKE), "cannot write run directories to"
        )
    finally:
        made_up.chmod(0o755)


@pytest.mark.parametrize("more", [[], ["-p", "no:terminal"]], ids=["as ever", "without a terminal"])
def test_it_runs_without_a_home_or_a_temporary_directory(tmp_path, more):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    env = environment(TMPDIR=str(tmp_path / "missing"), HOME="/proc/1")
    done = pytest_in(tmp_path, "--scenario=baseline::torch-ddp", *more, env=env)
    assert done.returncode == 0 and "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert more or "1 as recorded" in done.stdout
