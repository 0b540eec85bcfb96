"""The questions that a deputy answers by name, and nothing beside them."""

from __future__ import annotations

import base64
import contextlib
import os
import platform
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from breakrank.deputy.interfaces import interface_of
from breakrank.deputy.ranks import Ranks
from breakrank.deputy.strikes import Strikes
from breakrank.host.held_ends import holders
from breakrank.host.places import QUESTIONS
from breakrank.host.stack_dump import dump_stacks
from breakrank.host.supervisor import descendants
from breakrank_agent.kernel.sockets import Address, Link

#: Seconds that an interpreter may take to say what it has.
_LOOKED_UP_S = 60.0


class Questions:
    """Answers, about the ranks of this node and the node itself."""

    def __init__(self, ranks: Ranks, folder: Path, session: str, name: str) -> None:
        self._ranks, self._folder, self._session, self._name = ranks, folder, session, name
        self._ports: list[socket.socket] = []
        self._strikes = Strikes(ranks, folder)
        self._own: dict[str, Callable[..., Any]] = {
            "clock": time.monotonic,
            "holders": self._holders,
            "stacks": self._stacks,
            "sees": self._sees,
            "unpack": self._unpack,
            "ports": self._find_ports,
            "python": self._find_python,
            "lacks": _lacks,
            "strike": self._strikes.act,
            "witness": self._strikes.look,
            "judge": self._strikes.judge,
        }

    def facts(self) -> dict[str, Any]:
        """Return what the Conductor wants to know first: where we are, and by which address."""
        login = os.environ.get("SSH_CONNECTION", "").split()
        address = login[2] if len(login) == 4 else ""
        slurm = {name: value for name, value in os.environ.items() if name.startswith("SLURM")}
        return {
            "name": self._name,
            "host": os.uname().nodename,
            "machine": _machine(),
            "pid": os.getpid(),
            "python": platform.python_version(),
            "user": os.geteuid(),
            "folder": str(self._folder),
            "session": self._session,
            "address": address,
            "interface": interface_of(address) if address else "",
            "wall": time.time(),
            "cores": len(os.sched_getaffinity(0)),
            "slurm": slurm,
        }

    def answer(self, question: str, arguments: Sequence[Any]) -> Any:
        """Return the answer to a question. Raises `OSError`, also for one that is not known."""
        known = self._own.get(question) or QUESTIONS.get(question)
        if known is None:
            raise OSError(f"a deputy does not know the question {question!r}")
        return known(*arguments)

    def put(self, path: str, data: str, more: bool) -> None:
        """Lay a file, or more of it, into our folder. Raises `OSError` for a path that leads out of it."""
        target = (self._folder / path).resolve()
        if self._folder.resolve() not in target.parents:
            raise OSError(f"{path} does not lie in the folder of the deputy")
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("ab" if more else "wb") as file:
            file.write(base64.b64decode(data))

    def _holders(self, wanted: list[list[Any]], live: list[int]) -> list[int]:
        """Return what runs below us, is no rank, and holds one of these ends of connections."""
        links = [Link(Address(host, port), Address(to, to_port)) for host, port, to, to_port in wanted]
        return holders(links, descendants(os.getpid()), live)

    def _stacks(self, pids: dict[str, int], stopped: list[str], native: bool) -> dict[str, str]:
        """Return the stacks of ranks, by what they are called, as text."""
        bases = {rank.pid: rank.base for rank in self._ranks.known.values()}
        files = {name: Path(f"{bases[pid]}.stacks") for name, pid in pids.items() if pid in bases}
        return dump_stacks(self._ranks.signal, pids, files, stopped, native)

    def _sees(self, path: str, text: str) -> bool:
        """Return whether a file is seen here, and says this."""
        try:
            return Path(path).read_text() == text
        except (OSError, ValueError):
            return False

    def _unpack(self, archive: str, folder: str) -> str:
        """Unpack an archive that was laid here; return the path of the folder."""
        target = self._folder / folder
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tarfile.open(self._folder / archive) as files:
            # It is the user's own folder, sent by the user's own session.
            files.extractall(target)
        (self._folder / archive).unlink()
        return str(target)

    def _find_ports(self, count: int) -> list[int]:
        """Return free ports, which are held for servers that set SO_REUSEADDR, as rank 0's does."""
        for old in self._ports:
            old.close()
        self._ports = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
        for holder in self._ports:
            holder.bind(("0.0.0.0", 0))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return [int(holder.getsockname()[1]) for holder in self._ports]

    def _find_python(self, wanted: str) -> str:
        """Return the interpreter that runs ranks here: the wanted one, or what `python3` finds."""
        found = wanted if os.access(wanted, os.X_OK) else shutil.which("python3") or sys.executable
        # Tools that come with it, as py-spy, are found with it.
        beside = os.path.dirname(found)
        if beside not in os.environ.get("PATH", "").split(os.pathsep):
            os.environ["PATH"] = os.pathsep.join(filter(None, [os.environ.get("PATH", ""), beside]))
        return found


def _machine() -> str:
    """Return what no other machine has, nor another namespace of processes or network of this one."""
    spaces = [str(os.stat(f"/proc/self/ns/{kind}").st_ino) for kind in ("pid", "net")]
    return "-".join([Path("/proc/sys/kernel/random/boot_id").read_text().strip(), *spaces])


def _lacks(python: str, modules: list[str]) -> list[str]:
    """Return which modules an interpreter does not find. Raises `OSError` if it does not run."""
    code = "import importlib.util, sys; print(*(m for m in sys.argv[1:] if importlib.util.find_spec(m) is None))"
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run([python, "-c", code, *modules], capture_output=True, text=True, timeout=_LOOKED_UP_S)
        if done.returncode == 0:
            return done.stdout.split()
        raise OSError((done.stderr.strip().splitlines() or ["it does not run"])[-1])
    raise OSError(f"it took longer than {_LOOKED_UP_S:g} s to start")
