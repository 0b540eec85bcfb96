"""The ranks of a node: those that the deputy starts, and those that it takes in, until their ends are told."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from breakrank.deputy.rank import Rank
from breakrank.host.crash_dump import CrashDump
from breakrank.host.pidfds import ExitWatch
from breakrank.host.session_name import VARIABLE
from breakrank.host.supervisor import PR_SET_PDEATHSIG, descendants
from breakrank_agent.protocol.log import create_log

#: The agent's copy in our folder: see `breakrank.runners.process.stage_agent` for the name.
AGENT = "agent-importlib_bootstrap"
_libc = ctypes.CDLL(None)


class Ranks:
    """All ranks by key. `say` tells the Conductor; `shift` is added to the times in their records."""

    def __init__(self, folder: Path, session: str, home: str, say: Callable[..., None]) -> None:
        self._folder, self._session, self._home, self._say = folder, session, home, say
        self.known: dict[str, Rank] = {}
        self.watch = ExitWatch()
        self.shift = 0.0
        #: The ends of ranks that were waited for before anybody asked.
        self._statuses: dict[int, int] = {}
        self._children: set[int] = set()

    @property
    def live(self) -> list[Rank]:
        """The ranks that have not ended."""
        return [rank for rank in self.known.values() if not rank.ended]

    # --- begin

    def spawn(self, how: dict[str, Any]) -> Rank:
        """Start a rank. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        out, err = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        with contextlib.ExitStack() as stack:
            for end in (out[1], err[1]):
                stack.callback(os.close, end)
            stack.callback(theirs.close)
            base, boot, words = self._make_files(how["boot"])
            boot |= {"channel": theirs.fileno()}
            environment = {**how["defaults"], **os.environ, **how["env"], VARIABLE: self._session}
            path = [str(self._folder / AGENT), environment.get("PYTHONPATH", "")]
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
            if how["by"]:
                environment[how["by"]] = json.dumps(boot)
            started = subprocess.Popen(
                how["argv"],
                env=environment,
                cwd=how["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=out[1],
                stderr=err[1],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=_end_with_us,
            )
        # It is waited for here, by its number.
        started.returncode = 0
        self._children.add(started.pid)
        rank = self._take(how["rank"], started.pid, ours, base, words)
        rank.pipes = {"out": out[0], "err": err[0]}
        for descriptor in rank.pipes.values():
            os.set_blocking(descriptor, False)
        return rank

    def admit(self, key: str, pid: int, line: socket.socket, boot: dict[str, Any]) -> Rank:
        """Take in a caller, and tell it what it needs to begin. Raises `OSError`: it has ended since."""
        base, boot, words = self._make_files(boot)
        rank = self._take(key, pid, line, base, words)
        with contextlib.suppress(OSError):
            line.send(json.dumps(boot).encode() + b"\n")
        return rank

    def _make_files(self, boot: dict[str, Any]) -> tuple[Path, dict[str, Any], CrashDump]:
        lines = self._folder / "lines" / f"attempt-{boot['attempt']}"
        lines.mkdir(mode=0o700, parents=True, exist_ok=True)
        base = lines / f"rank-{boot['rank']}"
        create_log(f"{base}.log")
        words = CrashDump(Path(f"{base}.words"), Path(f"{base}.crash"))
        paths = {"log": f"{base}.log", "stacks": f"{base}.stacks", "words": f"{base}.words"}
        return base, {**boot, "plan": str(self._folder / "plan.json"), **paths}, words

    def _take(self, key: str, pid: int, line: socket.socket, base: Path, words: CrashDump) -> Rank:
        self.watch.follow(pid)
        rank = self.known[key] = Rank(key, pid, line, base, self._say)
        rank.words = words
        return rank

    # --- go on

    def sources(self, reads: bool) -> Iterator[Any]:
        """Yield what is readable when a rank has said something, if it is to be read, or has ended."""
        yield self.watch
        for rank in self.live:
            if rank.words is not None:
                yield rank.words.descriptor
            if reads and not rank.deaf:
                yield rank.line
            yield from rank.pipes.values() if reads else ()

    def pass_on(self) -> bool:
        """Pass on what the ranks have recorded, said and printed since the last time; return whether any recorded."""
        moved = False
        for rank in list(self.known.values()):
            moved |= rank.drain(self.shift)
            if not rank.deaf and not rank.ended:
                rank.hear()
            for name in list(rank.pipes):
                rank.read(name)
        return moved

    def hear_words(self) -> None:
        """Take what dying ranks say, and let them go on."""
        for rank in self.live:
            rank.hear_words(self.signal)

    def report(self) -> None:
        """Tell what has come of the ranks. All that they recorded and said comes before their ends."""
        self._reap()
        for report in self.watch.told():
            if report["what"] == "ended":
                report = self._with_status(report)
                self._bid_farewell(report["child"])
            self._say(**report)

    def _bid_farewell(self, pid: int) -> None:
        for rank in [rank for rank in self.known.values() if rank.pid == pid]:
            rank.drain(self.shift)
            rank.read_out()
            rank.end()

    def _with_status(self, report: dict[str, Any]) -> dict[str, Any]:
        """Return a report with the status that waitpid gave, where the rank is a child of ours."""
        pid = report["child"]
        if pid in self._children:
            self._children.discard(pid)
            if pid not in self._statuses:
                with contextlib.suppress(ChildProcessError):
                    _, status = os.waitpid(pid, 0)
                    self._statuses[pid] = os.waitstatus_to_exitcode(status)
            report = {**report, "status": self._statuses.pop(pid, report["status"]), "by": "waitpid"}
        return report

    def _reap(self) -> None:
        """Wait for whatever has ended below us, which is ours when its parent is gone."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid in self._children:
                    self._statuses[pid] = os.waitstatus_to_exitcode(status)

    # --- end

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal to a rank; return False if it has ended, or is none of ours."""
        return self.watch.signal(pid, number) if pid in self.watch else False

    def drop(self, key: str) -> None:
        """Forget a rank."""
        rank = self.known.pop(key, None)
        if rank is not None:
            rank.close()

    def clear(self) -> int:
        """End everything that ranks have left running; return how many processes there were."""
        killed: set[int] = set()
        for _ in range(1000):
            self._reap()
            below = descendants(os.getpid())
            if not below:
                break
            for pid in below:
                killed.add(pid)
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.report()
        return len(killed)

    def close(self) -> None:
        """Forget all ranks. They are ended by whoever ends all that is ours."""
        for key in list(self.known):
            self.drop(key)
        self.watch.close()


def _end_with_us() -> None:
    """In the child: end when the deputy does."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
