"""Warm zygotes, one per framework and environment, from which ranks are forked in milliseconds."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.files.private import open_private
from breakrank.host.session import NO_WALLS, Session
from breakrank_agent.protocol.checked import Unfit, check, is_text, parse, whole
from breakrank_agent.protocol.entry import PACKET
from breakrank_agent.protocol.frameworks import WARM, all_frameworks

#: A zygote that does not answer within this time is taken for hung and replaced. Its first answer may take longer: it
#: imports a framework, on a machine that may be busy.
ANSWER_S = 20.0
READY_S = 300.0

#: Variables that differ from rank to rank or run to run and mean nothing to an import. A zygote gives the rank its time
#: zone, as it gives it its environment.
_PER_RANK = (
    *("RANK", "MASTER_", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "TORCHELASTIC_", "BREAKRANK_", "SLURM_", "TZ"),
    *(name for one in all_frameworks().values() for name in (*one.variables, *one.late)),
)


@dataclass
class _Zygote:
    framework: str
    pid: int
    control: socket.socket
    log: Path
    ready: bool = False


class Zygotes:
    """The zygotes of one session. Dead, hung and poisoned ones are replaced."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._zygotes: dict[str, _Zygote] = {}

    @property
    def warming(self) -> str:
        """The framework that a zygote still imports, as far as anybody has waited for it; empty if there is none."""
        return next((zygote.framework for zygote in self._zygotes.values() if not zygote.ready), "")

    def warm_up(self, framework: str, env: dict[str, str]) -> None:
        """Have a framework imported for ranks that are forked later, without waiting for it."""
        key = _key(framework, env)
        if key not in self._zygotes:
            self._start(key, framework, env)

    def fork(
        self,
        framework: str,
        boot: dict[str, Any],
        env: dict[str, str],
        cwd: Path,
        descriptors: list[int],
        walls: tuple[int, int] = NO_WALLS,
    ) -> int:
        """Fork a rank and return its pid; it waits for one line on its channel. Raises `BreakrankError`.

        It enters the namespaces of a process, `walls`. A zygote that fails is replaced once.
        """
        key = _key(framework, env)
        for last in (False, True):
            zygote = self._zygotes.get(key) or self._start(key, framework, env)
            if not zygote.ready:
                self._await(key, framework, zygote)
            answer = self._ask(zygote, {"boot": boot, "env": env, "cwd": str(cwd), "walls": walls}, descriptors)
            if "pid" in answer:
                return int(answer["pid"])
            self._discard(key)
            if last:
                raise BreakrankError(f"no rank could be forked: {answer['error']}")
        raise AssertionError("unreachable")

    def _ask(self, zygote: _Zygote, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        try:
            # The session id goes along, as it does with every process that the supervisor starts.
            request["env"] = {**request["env"], **self._session.mark}
            socket.send_fds(zygote.control, [json.dumps(request).encode()], descriptors)
            answer = parse(zygote.control.recv(PACKET) or b'{"error": "the zygote is gone"}', PACKET)
            check(answer, {} if "pid" in answer else {"error": is_text}, {"pid": whole(2, 1 << 22)})
        except (OSError, Unfit) as error:
            return {"error": f"the zygote does not answer ({error})"}
        return answer

    def _start(self, key: str, framework: str, env: dict[str, str]) -> _Zygote:
        """Start a zygote, which imports its framework meanwhile."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PACKET)
        log = self._folder / f"zygote-{os.getpid()}-{framework}.log"
        with theirs, open(os.devnull, "rb") as null, open(log, "wb", opener=open_private) as output:
            spec = {"control": 3, "framework": framework}
            environment = lasting(env)
            environment["BREAKRANK_ZYGOTE"] = json.dumps(spec)
            argv = [sys.executable, "-m", "breakrank_agent.start.zygote"]
            ends = [null.fileno(), output.fileno(), output.fileno(), theirs.fileno()]
            pid = self._session.spawn(argv, environment, self._folder, ends)
        self._session.kept.add(pid)
        zygote = self._zygotes[key] = _Zygote(framework, pid, ours, log)
        return zygote

    def _await(self, key: str, framework: str, zygote: _Zygote) -> None:
        """Wait until a zygote has imported its framework, and is fit to be forked. Raises `BreakrankError`."""
        zygote.control.settimeout(READY_S)
        try:
            ready = parse(zygote.control.recv(PACKET) or b"{}", PACKET)
            check(ready, {}, {"ready": whole()})
        except (OSError, Unfit):
            ready = {}
        if ready.get("ready") != 1:
            said = zygote.log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            self._discard(key)
            why = f"it has {ready['ready']} threads" if "ready" in ready else said[-1]
            raise BreakrankError(f"no warm {framework} process could be started: {why}; try --scenario-cold")
        zygote.control.settimeout(ANSWER_S)
        zygote.ready = True

    def _discard(self, key: str) -> None:
        zygote = self._zygotes.pop(key)
        self._session.kept.discard(zygote.pid)
        with contextlib.suppress(BreakrankError):
            self._session.signal(zygote.pid, signal.SIGKILL)
        zygote.control.close()
        zygote.log.unlink(missing_ok=True)

    def close(self) -> None:
        """End all zygotes."""
        for key in list(self._zygotes):
            self._discard(key)


def lasting(env: dict[str, str]) -> dict[str, str]:
    """Return what of a rank's environment may mean something to an import."""
    return {k: v for k, v in env.items() if k == WARM or not k.startswith(_PER_RANK)}


def _key(framework: str, env: dict[str, str]) -> str:
    kept = sorted(f"{k}={v}" for k, v in lasting(env).items())
    return hashlib.sha256(os.fsencode("\0".join([framework, sys.executable, *kept]))).hexdigest()
