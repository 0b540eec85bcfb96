"""`watch` is a guest: if Breakrank fails or ends, the job still ends and prints as it does alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.lasting import soak
from support.watched import LIMIT_S, homes, kill, lives

#: The output of the job from the moment at which it trains on, and its exit code.
OWN = "saved\ncode 7\n"


def test_it_goes_on_when_we_are_killed(watch):
    """No process drains the log then: the rank notices this, and does not wait for room in its log."""
    job = watch()
    job.wait_until_it_trains()
    job.process.kill()
    assert job.read_to_the_end() == OWN


def test_a_rank_that_dies_when_we_are_dead_dies_of_its_own_signal(watch):
    job = watch()
    job.wait_until_it_trains()
    job.process.kill()
    job.process.wait()
    job.tell("import faulthandler; signal.signal(signal.SIGPIPE, signal.SIG_DFL); faulthandler._sigsegv()")
    assert job.read_to_the_end() == "code 139\n"


def test_a_rank_that_writes_over_its_record_costs_the_record_alone(watch):
    job = watch()
    job.wait_until_it_trains()
    job.tell("from breakrank_agent.agent import agent; agent._agent.recorder._log._map[:8] = bytes(8)")
    assert job.read_to_the_end() == OWN and job.process.returncode == 7
    assert "VOID: the record of rank 0 is damaged: the header of its log was written over" in job.said.read_text()


def test_two_ranks_of_one_number_at_once_do_not_wait_for_each_other(tmp_path):
    """The second rank is not held until the first has ended: it goes on as it would alone."""
    rank = "import os; from breakrank_agent.start import join; join.call(0, 1); "
    first = rank + "open('a', 'w'); open('b').read(); print('first')"
    second = rank + "open('a').read(); print('second', flush=True); open('b', 'w')"
    (tmp_path / "first.py").write_text(first)
    (tmp_path / "second.py").write_text(second)
    for name in "ab":
        os.mkfifo(tmp_path / name)
    both = f'export RANK=0 WORLD_SIZE=1; "{sys.executable}" first.py & "{sys.executable}" second.py; wait'
    command = [sys.executable, "-m", "breakrank", "watch", "sh", "-c", both]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "second\nfirst\n"), done.stderr


def test_there_is_no_supervisor_whose_end_would_be_the_jobs(watch):
    job = watch()
    rank = job.wait_until_it_trains()
    watcher = psutil.Process(job.process.pid)
    assert {child.pid for child in watcher.children(recursive=True)} == {rank, psutil.Process(rank).ppid()}
    assert psutil.Process(rank).parent().ppid() == watcher.pid
    assert job.read_to_the_end() == OWN and job.process.returncode == 7
    assert "nothing to remark" not in job.said.read_text(), "exit code 7 is reported"
    assert "rank 0 reported exit code 7" in job.said.read_text()


@pytest.mark.parametrize("name", ["SIGHUP", soak("SIGQUIT"), "SIGUSR1", soak("SIGUSR2"), soak("SIGALRM")])
def test_no_signal_to_us_alone_ends_it(watch, name):
    job = watch()
    job.wait_until_it_trains()
    job.process.send_signal(getattr(signal, name))
    assert job.read_to_the_end() == OWN and job.process.returncode == 7


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_wish_to_end_is_handed_on_once_and_the_job_decides(watch, name):
    job = watch()
    rank = job.wait_until_it_trains()
    os.kill(psutil.Process(rank).ppid(), signal.SIGSTOP)
    job.process.send_signal(getattr(signal, name))
    assert job.process.stdout.readline() == f"got {name}\n".encode()
    # The shell in between has no handler: it dies of the signal as soon as it continues, as it does without us.
    os.kill(psutil.Process(rank).ppid(), signal.SIGCONT)
    assert job.read_to_the_end() == "saved\n"
    assert job.process.returncode == 128 + getattr(signal, name)


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_what_we_are_to_ignore_from_our_start_the_job_ignores(watch, name):
    job = watch(before=f"trap '' {name[3:]}")
    rank = job.wait_until_it_trains()
    shell = psutil.Process(rank).ppid()
    status = Path(f"/proc/{shell}/status").read_text()
    ignored = int(status.split("SigIgn:")[1].split()[0], 16)
    assert ignored & 1 << (getattr(signal, name) - 1)
    assert job.read_to_the_end() == OWN and job.process.returncode == 7


def test_it_goes_on_with_stderr_closed_which_is_closed_for_it_too(watch):
    job = watch(before="exec 2>&-")
    rank = job.wait_until_it_trains()
    assert not Path(f"/proc/{psutil.Process(rank).ppid()}/fd/2").exists()
    assert job.read_to_the_end() == OWN and job.process.returncode == 7


def test_it_goes_on_when_nobody_reads_stderr_any_more(watch):
    reader, writer = os.pipe()
    job = watch(stderr=writer)
    os.close(writer)
    os.close(reader)
    job.wait_until_it_trains()
    assert job.read_to_the_end() == OWN and job.process.returncode == 7


def test_it_goes_on_when_whoever_reads_stderr_has_stopped_reading(watch):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    job = watch(stderr=writer)
    os.close(writer)
    job.wait_until_it_trains()
    assert job.read_to_the_end() == OWN and job.process.returncode == 7
    os.close(reader)


UNSHARE = "unshare -m" if os.getuid() == 0 else "unshare -r -m"
MOUNT = UNSHARE + ' sh -c \'mount -t tmpfs -o size=SIZE tmpfs FOLDER && exec "$@"\' sh "$@"'


def on_small_disk(watch, tmp_path, size, **env):
    """Watch a job whose records go to a file system of its own, of that size."""
    folder = tmp_path / "small"
    folder.mkdir()
    return watch(
        "--runs", str(folder / "runs"), before=MOUNT.replace("SIZE", size).replace("FOLDER", str(folder)), **env
    )


@pytest.mark.parametrize("size", ["64k", "6m"])
def test_on_a_disk_that_is_full_from_the_start_it_runs_unrecorded(watch, tmp_path, size):
    job = on_small_disk(watch, tmp_path, size)
    job.wait_until_it_trains()
    assert job.read_to_the_end() == OWN and job.process.returncode == 7
    (line,) = job.said.read_text().splitlines()
    assert line.startswith("breakrank: the job is not recorded: ") and "space" in line


def test_on_a_disk_that_fills_while_it_runs_recording_stops_with_one_line(watch, tmp_path):
    job = on_small_disk(watch, tmp_path, "12m")
    job.wait_until_it_trains()
    fill = f"f = open({str(tmp_path / 'small' / 'fill')!r}, 'wb', 0)"
    job.tell(fill)
    job.tell("import contextlib")
    job.tell("with contextlib.suppress(OSError):  [f.write(bytes(4096)) for _ in range(10000)]")
    assert job.read_to_the_end() == OWN and job.process.returncode == 7
    (line,) = job.said.read_text().splitlines()
    assert line.startswith("breakrank: recording stops: no space left in ")


def test_a_folder_for_the_records_that_cannot_be_made_costs_the_records_alone(watch, tmp_path):
    (tmp_path / "file").touch()
    job = watch("--runs", str(tmp_path / "file" / "runs"))
    job.wait_until_it_trains()
    assert job.read_to_the_end() == OWN and job.process.returncode == 7
    (line,) = job.said.read_text().splitlines()
    assert line.startswith("breakrank: the job is not recorded: cannot use ")


def is_hung_up_on(home, said):
    """Send bytes to the home socket; return whether the connection is closed without an answer."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(LIMIT_S)
        try:
            line.connect("\0" + home)
            line.sendall(said)
            return line.recv(1) == b""
        except ConnectionError:
            return True


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
def test_another_user_on_its_socket_is_hung_up_on(watch):
    job = watch()
    job.wait_until_it_trains()
    (home,) = homes(job.process.pid)
    stranger = os.fork()
    if stranger == 0:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        os._exit(0 if is_hung_up_on(home, b"[]\n") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(stranger, 0)[1]) == 0
    assert job.read_to_the_end() == OWN and job.process.returncode == 7
    assert "rank 0 reported exit code 7" in job.said.read_text(), "it was recorded to its end"


def test_garbage_on_its_socket_by_the_same_user_is_hung_up_on(watch):
    job = watch()
    job.wait_until_it_trains()
    (home,) = homes(job.process.pid)
    for garbage in (b"[]\n" * 20, b"\xff" * 100_000, b"{" * 40 + b"\n", b"\n" * 40):
        assert is_hung_up_on(home, garbage)
    assert job.read_to_the_end() == OWN and job.process.returncode == 7
    assert "rank 0 reported exit code 7" in job.said.read_text(), "it was recorded to its end"


def test_a_process_that_the_job_leaves_behind_lives_on(tmp_path):
    leaves = ["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!; exit 3"]
    command = [sys.executable, "-m", "breakrank", "watch", *leaves]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    left = int(done.stdout)
    try:
        assert done.returncode == 3
        assert lives(left)
        assert b"BREAKRANK_SESSION" not in Path(f"/proc/{left}/environ").read_bytes(), "the next run would sweep it"
    finally:
        kill(left)


def test_what_is_called_a_rank_and_never_calls_is_not_waited_for_when_the_command_has_ended(tmp_path):
    stays = f'RANK=0 WORLD_SIZE=1 "{sys.executable}" -c "import time; time.sleep(1000)" >/dev/null 2>&1 & echo $!'
    command = [sys.executable, "-m", "breakrank", "watch", "--stall", "0.2", "sh", "-c", stays]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    left = int(done.stdout)
    try:
        assert done.returncode == 0 and lives(left)
    finally:
        kill(left)


def test_the_environment_is_the_users_own(tmp_path):
    command = [sys.executable, "-m", "breakrank", "watch", "sh", "-c", "echo $MASTER_PORT $RANK $PYTEST_ADDOPTS"]
    env = {**os.environ, "MASTER_PORT": "29501", "RANK": "3", "PYTEST_ADDOPTS": "-q"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "29501 3 -q\n")


def test_a_command_that_is_not_there_is_an_error_of_one_line(tmp_path):
    command = [sys.executable, "-m", "breakrank", "watch", "no-such-program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 4 and len(done.stderr.splitlines()) == 1
