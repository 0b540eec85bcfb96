"""One rank of this node: its log, its line, its output and its crash dump, which the deputy passes on."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from breakrank.host.crash_dump import CrashDump
from breakrank_agent.protocol.checked import Unfit
from breakrank_agent.protocol.log import Damaged, LogReader

#: The bytes of records in one message, and of a stream.
_BATCH, _CHUNK = 1 << 18, 1 << 16
#: The time in a record, which is its fifth member: what comes before holds no unescaped quote of its own.
_TIME = re.compile(rb'(?<!\\)"t":(-?\d+(?:\.\d+)?)')
#: The most bytes of a text that is passed on in full.
_MOST_TEXT = 1 << 20

Say = Callable[..., None]


class Rank:
    """A rank by its key. `line` leads to its agent, `pipes` are what it prints; `base` is the stem of its files."""

    def __init__(self, key: str, pid: int, line: socket.socket, base: Path, say: Say) -> None:
        self.key, self.pid, self.line, self.base = key, pid, line, base
        self._say_all = say
        self.log: LogReader | None = LogReader(f"{base}.log")
        self._children: dict[str, LogReader] = {}
        self.words: CrashDump | None = None
        self.pipes: dict[str, int] = {}
        self.ended = self.deaf = False
        self._dropped: dict[str, int] = {}
        line.setblocking(False)

    def say(self, **values: Any) -> None:
        """Tell the Conductor something of the rank."""
        self._say_all(rank=self.key, **values)

    # --- records

    def drain(self, shift: float) -> bool:
        """Pass the records on; return whether there were any."""
        logs = [*self._children.items()]
        moved = False
        for name, log in ([("", self.log)] if self.log is not None else []) + logs:
            try:
                moved |= self._pass_on(name, log, shift)
            except (Unfit, Damaged) as error:
                self.say(records=[], log=name, dropped=log.dropped, damaged=str(error)[:300])
                self._forget(name)
        return moved

    def child(self, name: str) -> None:
        """Read the log of a process that the rank has started, too."""
        # A program may have removed it; a log that is not read is reported as not watched.
        if "/" not in name:
            with contextlib.suppress(OSError, ValueError):
                self._children[name] = LogReader(f"{self.base}.{name}.log")

    def end_after(self, step: int) -> None:
        """Have the rank end after a step."""
        if self.log is not None:
            self.log.end_after(step)

    def _pass_on(self, name: str, log: LogReader, shift: float) -> bool:
        records = log.drain()
        batch: list[str] = []
        size = 0
        for record in records:
            line = _shifted(record, shift).decode()
            batch.append(line)
            size += len(line)
            if size > _BATCH:
                self.say(records=batch, log=name, dropped=log.dropped)
                batch, size = [], 0
        if batch or log.dropped > self._dropped.get(name, 0):
            self._dropped[name] = log.dropped
            self.say(records=batch, log=name, dropped=log.dropped)
        return bool(records)

    def _forget(self, name: str) -> None:
        log = self._children.pop(name, None) if name else self.log
        if log is not None:
            log.close()
        if not name:
            self.log = None

    # --- streams

    def hear(self) -> bool:
        """Pass on what the agent says; return whether it may say more."""
        try:
            data = self.line.recv(_CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        self.say(stream="channel", data=base64.b64encode(data).decode(), over=not data)
        self.deaf = not data
        return bool(data)

    def tell(self, data: str) -> None:
        """Say something to the agent."""
        # A rank that was killed where it waited needs no answer.
        with contextlib.suppress(OSError, ValueError):
            self.line.send(base64.b64decode(data))

    def read(self, name: str) -> bool:
        """Pass on what the rank has printed; return whether it may print more."""
        try:
            data = os.read(self.pipes[name], _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            os.close(self.pipes.pop(name))
        self.say(stream=name, data=base64.b64encode(data).decode(), over=not data)
        return bool(data)

    def read_out(self) -> None:
        """Pass on all that the rank has printed until now."""
        for name in list(self.pipes):
            for _ in range(64):
                if not _is_readable(self.pipes[name]) or not self.read(name):
                    break

    # --- the end

    def stops(self) -> None:
        """Have the kernel stop the rank as soon as it speaks when it dies."""
        if self.words is not None:
            self.words.stops(self.pid)

    def hear_words(self, send: Callable[[int, int], object]) -> None:
        """Take what the rank says when it dies, and let it go on."""
        if self.words is not None and self.words.waits:
            self.words.hear(send)
            if self.words.endless:
                self.say(records=[], dropped=0, damaged="its crash dump does not end")
                self.words.close()
                self.words = None

    def end(self) -> None:
        """Tell of what the rank said when it died, and the stacks that it wrote."""
        self.ended = True
        event = self.words.event() if self.words is not None else None
        if event is not None:
            self.say(crash=event, text=_text(Path(f"{self.base}.crash")))
        stacks = _text(Path(f"{self.base}.stacks"))
        if stacks:
            self.say(stacks=stacks)

    def close(self) -> None:
        """Give everything back."""
        self.line.close()
        for descriptor in self.pipes.values():
            os.close(descriptor)
        for name in ["", *self._children]:
            self._forget(name)
        if self.words is not None:
            self.words.close()
        for path in self.base.parent.glob(f"{self.base.name}.*"):
            path.unlink()


def _shifted(record: bytes, shift: float) -> bytes:
    """Return a record with its time as the Conductor's clock has it."""
    found = _TIME.search(record) if shift else None
    if found is None:
        return record
    return record[: found.start(1)] + b"%.6f" % (float(found[1]) + shift) + record[found.end(1) :]


def _is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_bytes()[:_MOST_TEXT].decode(errors="replace")
    return ""
