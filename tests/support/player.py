"""Nodes that are played: real deputies, and ranks that write recorded histories by the agent's own log and line.

The one process that is started here, with its settings on its stdin, forks a guard for each node, which forks the
deputy, and a process for each rank. It imports no framework, so that a thousand ranks fit into one machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from breakrank.deputy.guard import main as guard
from breakrank.host.session_name import session_id
from breakrank_agent.protocol.log import LogWriter

#: prctl(2): the signal that a process gets when its parent ends.
_PDEATHSIG = 1
#: A record in two parts: what comes before its time, and after.
Record = tuple[bytes, bytes]


def play(settings: dict[str, Any]) -> None:
    """Play the nodes of these settings until the Conductor has left the last of them.

    Ranks begin at the second line of the stdin, when all deputies are known: on one machine they would starve these.
    """
    records = [_parted(line) for line in settings["records"]]
    children = [_fork(_be_node, settings, node) for node in settings["nodes"]]
    sys.stdin.readline()
    for node in settings["nodes"]:
        children += [_fork(_be_rank, settings, node, rank, records) for rank in node["ranks"]]
    for child in children:
        os.waitpid(child, 0)


def adapted(lines: Sequence[bytes], rank: int, world: int) -> Iterator[bytes]:
    """Yield the records of a rank of another job as those of one of `world` ranks: what names them is written anew."""
    for line in lines:
        event = json.loads(line)
        if event["kind"] == "rank":
            event |= {"rank": rank, "slot": rank, "world": world, "pid": os.getpid()}
        elif event["kind"] == "group":
            event["ranks"] = list(range(world))
        elif event["kind"] == "rendezvous":
            event |= {"rank": rank, "world": world}
        elif "size" in event:
            event["size"] = world
        else:
            yield line
            continue
        yield json.dumps(event, separators=(",", ":")).encode()


def _fork(do: Any, *arguments: Any) -> int:
    child = os.fork()
    if child:
        return child
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    code = 1
    try:
        code = do(*arguments)
    finally:
        os._exit(code)


def _be_node(settings: dict[str, Any], node: dict[str, Any]) -> int:
    config = {**settings["config"], "home": node["home"], "name": node["name"]}
    session = session_id()
    folder = Path(tempfile.gettempdir()) / f"breakrank-{session}"
    folder.mkdir(mode=0o700)
    return guard(config, session, str(folder))


def _be_rank(settings: dict[str, Any], node: dict[str, Any], rank: int, records: Sequence[Record]) -> int:
    line, boot = _call(settings, node["home"], rank)
    log = LogWriter(boot["log"])
    for before, after in _own(records, rank, settings):
        log.write(before + b"%.6f" % time.monotonic() + after)
    if not settings["hangs"]:
        return 0
    # A rank that waits in a collective sleeps in a futex, without a time-out; with its line, it is ended.
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
    line.close()
    return 0


def _own(records: Sequence[Record], rank: int, settings: dict[str, Any]) -> Iterator[Record]:
    """Yield the records of a rank: what differs from rank to rank is its own, and one rank skips the last call."""
    world, last = settings["world"], len(records) - 1
    for number, (before, after) in enumerate(records):
        if before.startswith(b'{"kind":"rank"') or before.startswith(b'{"kind":"rendezvous"'):
            (line,) = adapted([before + b"0.0" + after], rank, world)
            yield _parted(line)
        elif number == last and rank == settings["skips"]:
            yield before, after.replace(b"allreduce_", b"barrier")
        else:
            yield before, after


def _call(settings: dict[str, Any], home: str, rank: int) -> tuple[socket.socket, dict[str, Any]]:
    """Call at the door of the node as the agent does; return the line, and what it needs to begin."""
    line = socket.socket(socket.AF_UNIX)
    while True:
        try:
            line.connect("\0" + home)
            break
        except OSError:
            # The deputy does not listen yet, or it has no room for more callers.
            time.sleep(0.5)
    hello = {"rank": rank, "world": settings["world"], "attempt": None, "store": 0}
    line.sendall(settings["config"]["secret"].encode() + json.dumps(hello).encode() + b"\n")
    heard = b""
    while not heard.endswith(b"\n"):
        data = line.recv(1 << 16)
        if not data:
            os._exit(3)
        heard += data
    return line, json.loads(heard)


def _parted(line: bytes | str) -> Record:
    """Part a record at its time."""
    data = line.encode() if isinstance(line, str) else line
    before, mark, rest = data.partition(b'"t":')
    _, comma, after = rest.partition(b",")
    return before + mark, comma + after


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        play(json.loads(sys.stdin.readline()))
