"""A job that is watched: one rank, which tells the test when it trains, and goes on when the test says so."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

#: The rank calls home, as it does at the import of a framework, and records more than its log holds.
JOB = """\
import os, signal, sys
import breakrank_agent
from breakrank_agent.start import join

for name in ("SIGTERM", "SIGINT"):
    signal.signal(getattr(signal, name), lambda number, frame: print("got", signal.Signals(number).name, flush=True))
join.call(0, 1)
print("trains", os.getpid(), flush=True)
for line in sys.stdin:
    if line == "go\\n":
        break
    exec(line)
for number in range(int(os.environ.get("STEPS", "3000"))):
    breakrank_agent.tell("loss", number=number, text="x" * 500)
    breakrank_agent.step()
print("saved", flush=True)
sys.exit(7)
"""
#: The command: a shell that prints the exit code of its rank, and exits with it.
COMMAND = ["sh", "-c", f'RANK=0 WORLD_SIZE=1 "{sys.executable}" job.py; code=$?; echo code $code; exit $code']
LIMIT_S = 120.0


class Watched:
    """A job under `python -m breakrank watch`, in a folder of its own."""

    def __init__(self, folder: Path, *options: str, stderr: int | None = None, before: str = "", **env: str) -> None:
        (folder / "job.py").write_text(JOB)
        watch = [sys.executable, "-m", "breakrank", "watch", *options, *COMMAND]
        # `before` is a command of the shell that becomes the watcher.
        words = ["sh", "-c", f'{before}\nexec "$@"' if "$@" not in before else before, "sh", *watch]
        self.said = folder / "said"
        with self.said.open("wb") as file:
            self.process = subprocess.Popen(
                words,
                cwd=folder,
                env={**os.environ, **env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file if stderr is None else stderr,
                # Tests that a shell has started in the background ignore SIGINT, and so would the job.
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )

    def wait_until_it_trains(self) -> int:
        """Return the pid of the rank, which has called home."""
        assert self.process.stdout is not None
        word, pid = self.process.stdout.readline().split()
        assert word == b"trains"
        return int(pid)

    def tell(self, line: str) -> None:
        """Have the rank execute a line of Python."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def read_to_the_end(self) -> str:
        """Let the rank train; return all that the job prints from now on."""
        return self.process.communicate(b"go\n", timeout=LIMIT_S)[0].decode()

    def end(self) -> None:
        """End all processes of a job that a test could not end."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, AttributeError):
                stream.close()


Make = Callable[..., Watched]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Make]:
    """Make watched jobs in one folder."""
    made: list[Watched] = []

    def make(*options: str, **values: object) -> Watched:
        made.append(Watched(tmp_path, *options, **values))
        return made[-1]

    yield make
    for job in made:
        job.end()


def homes(pid: int) -> list[str]:
    """Return the abstract sockets that a process listens at, as any user of the machine finds them."""
    mine = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    found = re.findall(r" (\d+) @(breakrank-\w+)", Path("/proc/net/unix").read_text())
    return sorted({address for inode, address in found if f"socket:[{inode}]" in mine})


def lives(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
