"""A minimal launcher: it starts ranks on this machine, cold or from a zygote, and reads their records."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HARNESS = HERE.parents[1] / "harness"
sys.path.insert(0, str(HARNESS))

from breakrank_agent.plan import Plan  # noqa: E402
from breakrank_agent.protocol.entry import STACKS_SIGNAL  # noqa: E402
from breakrank_agent.protocol.log import create_log, read_log  # noqa: E402

#: The most that one job may take.
LIMIT_S = 60.0
_NOTHING: Mapping[str, Any] = {}
_LOG_SIZE = 16 << 20
_PACKET = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36


class Failed(Exception):
    """A check failed; `figures` are those that it had by then."""

    def __init__(self, says: str, figures: Mapping[str, Any]) -> None:
        super().__init__(says)
        self.figures = figures


def expect(condition: bool, otherwise: str, figures: Mapping[str, Any] = _NOTHING) -> None:
    """Raise `Failed` with what is wrong, unless the condition holds."""
    if not condition:
        raise Failed(otherwise, figures)


@dataclass(frozen=True)
class Lived:
    """The remains of one rank: exit code (minus the signal; None if its time was up), events, output, workdir."""

    rank: int
    code: int | None
    events: list[dict[str, Any]]
    output: str
    folder: Path

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a kind."""
        return [event for event in self.events if event["kind"] == kind]

    def collectives(self) -> list[dict[str, Any]]:
        """Return the collectives that the hook saw."""
        return [event for event in self.of_kind("point") if event["point"] == "collective"]

    def told(self, name: str) -> list[dict[str, Any]]:
        """Return the values that the program logged under a name."""
        return [event["values"] for event in self.of_kind("told") if event["name"] == name]

    def must_end_well(self) -> Lived:
        """Return the rank; raise `Failed`, with its last line, if it did not exit with 0."""
        lines = ["", *self.output.strip().splitlines()]
        program = self.folder.parent.name.partition("-")[0]
        if self.code is None:
            # The innermost frame of the main thread stands below the head of its stack.
            frames = [after for line, after in itertools.pairwise(lines) if line.startswith("Current thread")]
            raise Failed(f"rank {self.rank} of {program} did not end in its time: {(frames or lines)[-1]}", {})
        expect(self.code == 0, f"rank {self.rank} of {program} ended with {self.code}: {lines[-1]}")
        return self


class Launcher:
    """Starts jobs below one temporary folder; none lives longer than its limit, nor all of them past `ends`."""

    def __init__(self, device: str, folder: Path, ends: float) -> None:
        self.device = device
        self._folder = folder
        self._ends = ends

    def run(
        self, program: str, ranks: int = 1, agent: bool = True, env: Mapping[str, str] = _NOTHING, **plan: Any
    ) -> list[Lived]:
        """Run a function of `programs.py` on so many ranks, each in a new interpreter; return what each left."""
        job = self.job(program, ranks, agent, env, plan)
        started = [rank.start() for rank in job]
        codes = _await({process.pid: process.poll for process in started}, self.until())
        return [rank.lived(code) for rank, code in zip(job, codes, strict=True)]

    @contextlib.contextmanager
    def zygote(self) -> Iterator[Zygote]:
        """Start a zygote that is warmed by `warmed.py`; it ends with the block."""
        # A rank becomes the child of the nearest sub-reaper, which then can wait for it.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        spec = json.dumps({"control": theirs.fileno(), "framework": "warmed"})
        folder = Path(tempfile.mkdtemp(prefix="zygote-", dir=self._folder))
        said, forks = folder / "output.txt", folder / "forks.txt"
        with said.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "breakrank_agent.start.zygote"],
                env={**self._environment(), "GPU_FORKS": str(forks), "BREAKRANK_ZYGOTE": spec},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        theirs.close()
        ours.settimeout(max(1.0, self.until() - time.monotonic()))
        try:
            with ours:
                yield Zygote(self, process.pid, ours, said, forks)
        finally:
            process.kill()
            process.wait(10)

    def until(self) -> float:
        """Return the time by which a process that starts now must have ended."""
        return min(time.monotonic() + LIMIT_S, self._ends)

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (str(HARNESS), str(HERE), os.environ.get("PYTHONPATH"))))
        return {
            **os.environ,
            "PYTHONPATH": path,
            "GPU_DEVICE": self.device,
            # No network: the ranks meet on the loopback, whatever the machine's name resolves to.
            "GLOO_SOCKET_IFNAME": "lo",
            "NCCL_SOCKET_IFNAME": "lo",
            # The setting of a run's ranks; the zygote must not have the threads of a library either.
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
            # Deterministic matrix products on CUDA ask for it.
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        }

    def job(
        self, program: str, ranks: int, agent: bool, env: Mapping[str, str], plan: Mapping[str, Any]
    ) -> list[_Rank]:
        """Lay out what each rank of a job needs."""
        folder = Path(tempfile.mkdtemp(prefix=f"{program}-", dir=self._folder))
        program = f"programs:{program}"
        path = folder / "plan.json"
        path.write_text(Plan(scenario="gpu", case=self.device, program=program, ranks=ranks, **plan).dumps())
        meeting = {**self._environment(), **env, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        job = []
        for number in range(ranks):
            work, log = folder / f"rank-{number}", folder / f"rank-{number}.log"
            work.mkdir()
            if agent:
                create_log(str(log), _LOG_SIZE)
            boot = {"plan": str(path), "rank": number, "attempt": 0, "world": ranks, "log": str(log), "agent": agent}
            boot |= {name: str(folder / f"rank-{number}.{name}") for name in ("stacks", "words")}
            boot |= {"program": program, "programs": str(HERE)}
            # A crash dump goes to a file here, because no process waits for it.
            Path(boot["words"]).touch()
            names = {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(ranks)}
            job.append(_Rank(number, boot, {**meeting, **names}, work, folder / f"rank-{number}.txt"))
        return job


@dataclass(frozen=True)
class _Rank:
    """A rank that is to be started."""

    number: int
    boot: dict[str, Any]
    env: dict[str, str]
    folder: Path
    output: Path

    def start(self) -> subprocess.Popen[bytes]:
        """Start it in a new interpreter."""
        with self.output.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "breakrank_agent.start.boot"],
                env={**self.env, "BREAKRANK_BOOT": json.dumps(self.boot)},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def lived(self, code: int | None) -> Lived:
        """Return the remains of the rank. Its output ends with its stacks, if its time was up, or its crash dump."""
        said = self.output.read_text(errors="replace")
        for path in (Path(self.boot["stacks"]), Path(self.boot["words"])):
            if code != 0 and path.exists():
                said += path.read_text(errors="replace")
        events = read_log(self.boot["log"]) if self.boot["agent"] else []
        return Lived(self.number, code, events, said, self.folder)


class Zygote:
    """A zygote of ours, which forks ranks."""

    def __init__(self, launcher: Launcher, pid: int, control: socket.socket, output: Path, forks: Path) -> None:
        self.pid = pid
        self._launcher = launcher
        self._control = control
        self._forks = forks
        try:
            ready = json.loads(control.recv(_PACKET) or b"{}")
        except OSError:
            ready = {}
        last = ["", *output.read_text(errors="replace").strip().splitlines()][-1]
        expect("ready" in ready, f"the zygote did not become ready: {last}")
        self.threads = int(ready["ready"])

    def run(self, program: str, agent: bool = True, env: Mapping[str, str] = _NOTHING, **plan: Any) -> Lived:
        """Fork one rank that runs a function of `programs.py`; return what it left."""
        (rank,) = self._launcher.job(program, 1, agent, env, plan)
        ours, theirs = socket.socketpair()
        with ours, theirs, open(os.devnull, "rb") as null, rank.output.open("wb") as output:
            ends = [null.fileno(), output.fileno(), output.fileno(), theirs.fileno()]
            request = {"boot": rank.boot, "env": rank.env, "cwd": str(rank.folder), "walls": [0, 0]}
            socket.send_fds(self._control, [json.dumps(request).encode()], ends)
            answer = json.loads(self._control.recv(_PACKET) or b'{"error": "the zygote is gone"}')
            expect("pid" in answer, f"no rank was forked: {answer.get('error')}")
            ours.send(b"\n")
            pid = int(answer["pid"])
            (code,) = _await({pid: lambda: _poll(pid)}, self._launcher.until())
        return rank.lived(code)

    def notes(self) -> list[dict[str, Any]]:
        """Return the note of each fork, made in the process that forked: `pid`, and whether CUDA was initialised."""
        return [json.loads(line) for line in self._forks.read_text().splitlines()]

    def opened(self) -> list[str]:
        """Return the open files of the zygote, as the kernel lists them."""
        folder = f"/proc/{self.pid}/fd"
        return [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]

    def maps(self) -> str:
        """Return the zygote's mappings, as the kernel lists them."""
        return Path(f"/proc/{self.pid}/maps").read_text(errors="replace")


def _await(polls: Mapping[int, Callable[[], int | None]], until: float) -> list[int | None]:
    """Return the exit codes, None for a process that still ran at `until`: that one shows its stacks, and is ended.

    A poll returns an exit code at most once, so that no signal is sent to a process that is gone.
    """
    codes: dict[int, int] = {}

    def wait(until: float) -> None:
        while True:
            for pid in polls.keys() - codes.keys():
                code = polls[pid]()
                if code is not None:
                    codes[pid] = code
            if len(codes) == len(polls) or time.monotonic() >= until:
                return
            time.sleep(0.02)

    wait(until)
    in_time = dict(codes)
    # The kernel may take a while to end a process that is in the driver; the checks do not wait for that.
    for number, patience_s in ((STACKS_SIGNAL, 1.0), (signal.SIGKILL, 10.0)):
        for pid in polls.keys() - codes.keys():
            os.kill(pid, number)
        wait(time.monotonic() + patience_s)
    return [in_time.get(pid) for pid in polls]


def _poll(pid: int) -> int | None:
    """Return the exit code of a child that has ended, minus the signal; None if it runs, or was waited for."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if ended else None


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
