"""One rank of another node, with what the Conductor has of each rank: its log, its channel, its output, its dump."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import socket
from pathlib import Path
from typing import Any, Protocol

from breakrank.host.node_pid import Node, NodePid
from breakrank_agent.protocol.checked import Unfit, check, is_text, whole
from breakrank_agent.protocol.log import Damaged

#: The most bytes that wait here for the Conductor to read them, in one stream of a rank.
_MOST_WAITING = 256 << 20
_PIPE_BYTES = 1 << 20
#: fcntl(2).
_F_SETPIPE_SZ = 1031


class Deputy(Node, Protocol):
    """The node as its ranks need it."""

    def send(self, do: str, **values: Any) -> None:
        """Say something that has no answer. Raises `CutShortError`."""

    def drop(self, there: RankThere) -> None:
        """Forget a rank that has ended."""


class LogThere:
    """The log of a rank, or of a child of it, as its deputy sends it: a `LogReader` that reads no file."""

    def __init__(self, there: RankThere, child: str = "") -> None:
        self._there, self._child = there, child
        self.dropped = 0
        self.damaged = ""
        self.records: list[bytes] = []

    def drain(self) -> list[bytes]:
        """Return the records that have come since the last call. Raises `Damaged`."""
        records, self.records = self.records, []
        if self.damaged and not records:
            raise Damaged(self.damaged)
        return records

    def end_after(self, step: int) -> None:
        """Have the rank end after a step."""
        self._there.say("end_after", step=step)

    def child(self, path: Path) -> LogThere:
        """Return the log of a process that the rank has started; `path` is what it would be called here."""
        name = path.name.removesuffix(".log").partition(".")[2]
        found = self._there.logs[name] = LogThere(self._there, name)
        self._there.say("child", name=name)
        return found

    def close(self) -> None:
        """Read no more of it."""
        self._there.logs.pop(self._child, None)
        if not self._child:
            self._there.leave()


class WordsThere:
    """The crash dump of a rank as its deputy has taken it. The deputy lets the rank go on by itself."""

    #: The deputy answers nothing while a dump is unread, so that no rank is seen as stopped for one.
    waits = endless = False

    def __init__(self, there: RankThere) -> None:
        self._there = there
        #: Nothing is ever to be read from it: it stands among descriptors that are waited for.
        self.descriptor, self._other = os.pipe2(os.O_CLOEXEC)
        self._event: dict[str, Any] | None = None
        self.text = ""

    def stops(self, pid: object) -> None:
        """Have the kernel of the node stop the rank as soon as it speaks."""
        self._there.say("stops")

    def hear(self, send: object) -> None:
        """Make nothing of it: the deputy hears."""

    def event(self) -> dict[str, Any] | None:
        """Return the values of the Conductor's event, None if the rank said nothing."""
        return self._event

    def take(self, event: dict[str, Any]) -> None:
        """Take what the deputy read."""
        self._event = event

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in (self.descriptor, self._other):
            os.close(descriptor)


class RankThere:
    """One rank by the `key` that the Conductor and the deputy know it by; `channel` and `pipes` are the Conductor's."""

    def __init__(self, node: Deputy, key: str, pipes: tuple[str, ...]) -> None:
        self._node, self.key = node, key
        self.pid = NodePid(node, 0)
        self.logs: dict[str, LogThere] = {}
        self.log = self.logs[""] = LogThere(self)
        self.words = WordsThere(self)
        self.channel, self.relay = socket.socketpair()
        self.channel.setblocking(False)
        self.relay.setblocking(False)
        self.pipes: dict[str, int] = {}
        #: Our ends of what the Conductor reads, and what waits to be written there; None ends the stream.
        self._ends: dict[str, int] = {"channel": self.relay.fileno()}
        self._waiting: dict[str, bytearray] = {"channel": bytearray()}
        self._over: set[str] = set()
        for name in pipes:
            self.pipes[name], self._ends[name] = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._waiting[name] = bytearray()
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.pipes[name], _F_SETPIPE_SZ, _PIPE_BYTES)
        #: The file that is to hold all that is known of the rank's end.
        self.crash_file: Path | None = None
        #: The file that is to hold the stacks that the rank was asked for.
        self.stacks_file: Path | None = None

    def say(self, do: str, **values: Any) -> None:
        """Say something about the rank to its deputy."""
        self._node.send(do, rank=self.key, **values)

    def take(self, message: dict[str, Any]) -> None:
        """Take what the deputy says of the rank. Raises `Unfit` and what else damaged values raise."""
        if "records" in message:
            log = self.logs.get(message.get("log", ""))
            if log is not None:
                check(message, {"dropped": whole()}, {"damaged": is_text})
                log.records += [line.encode() for line in message["records"]]
                log.dropped = message["dropped"]
                log.damaged = message.get("damaged", "")
        elif "stream" in message:
            check(message, {"stream": is_text, "data": is_text})
            self._feed(message["stream"], base64.b64decode(message["data"]), bool(message.get("over")))
        elif "crash" in message:
            self.words.take(dict(message["crash"]))
            self._keep(self.crash_file, message["text"])
        elif "stacks" in message:
            self._keep(self.stacks_file, message["stacks"])
        self.pass_on()

    def pass_on(self) -> None:
        """Write what waits, and send what the Conductor has said to the rank."""
        for name in list(self._ends):
            self._write(name)
        with contextlib.suppress(OSError):
            while "channel" in self._ends:
                data = self.relay.recv(65536)
                if not data:
                    self._end("channel")
                    break
                self.say("say", data=base64.b64encode(data).decode())

    def leave(self) -> None:
        """Forget the rank: the Conductor has read all of it."""
        self._node.drop(self)
        for name in list(self._ends):
            self._end(name)
        self.relay.close()

    def close(self) -> None:
        """Give everything back that the Conductor would, of a rank that it never got."""
        self.channel.close()
        self.words.close()
        for descriptor in self.pipes.values():
            os.close(descriptor)
        self.leave()

    def _feed(self, name: str, data: bytes, over: bool) -> None:
        if name not in self._ends:
            return
        self._waiting[name] += data
        if len(self._waiting[name]) > _MOST_WAITING:
            raise Unfit("a rank says more than is read")
        if over:
            self._over.add(name)

    def _write(self, name: str) -> None:
        waiting = self._waiting[name]
        try:
            while waiting:
                del waiting[: os.write(self._ends[name], memoryview(waiting)[:65536])]
        except BlockingIOError:
            return
        except OSError:
            waiting.clear()
        if name in self._over:
            self._end(name)

    def _end(self, name: str) -> None:
        end = self._ends.pop(name, None)
        if name == "channel":
            with contextlib.suppress(OSError):
                self.relay.shutdown(socket.SHUT_WR)
        elif end is not None:
            os.close(end)

    @staticmethod
    def _keep(path: Path | None, text: str) -> None:
        # On a full disk the event says it all the same.
        if path is not None and text:
            with contextlib.suppress(OSError):
                path.write_text(text)
