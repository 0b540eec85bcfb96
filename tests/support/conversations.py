"""Hostile conversations on each of our sockets, drawn from a seed: nothing that comes may raise, spin or stay.

Each function holds one conversation, and raises `AssertionError` if its result is a forbidden one. `TALKS` names them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

from breakrank.conductor.gate import Gate
from breakrank.conductor.rank import Rank
from breakrank.conductor.validation import Line, made_of, parse_event
from breakrank.host import supervisor
from breakrank.runners.bridge import address, answer_name, host_name
from breakrank.runners.join_socket import Home, parse_hello
from breakrank.runners.zygotes import Zygotes, _Zygote
from breakrank.schemas import schema
from breakrank_agent import faults
from breakrank_agent.agent.channel import Channel
from breakrank_agent.plan import Plan, Schedule
from breakrank_agent.protocol.checked import Unfit
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.log import HistoryError, LogReader, LogWriter, create_log
from breakrank_agent.protocol.trigger import at
from breakrank_agent.schedules import policy

LIMIT_S = 60.0
KINDS = schema("event")["properties"]["kind"]["enum"]
PLAN = Plan("t", "t", "m:f", ranks=2, strikes=(Strike(faults.Kill(), at(rank=0, step=2), (0,)),))


def value(draw: random.Random, deep: int = 3) -> object:
    """Return any JSON value."""
    plain = [None, True, -1, 0, 1, 10**9, 2**70, 1.5, float("nan"), "", "x", "x" * 3000, "\0", "é"]
    if deep and draw.random() < 0.4:
        if draw.random() < 0.5:
            return [value(draw, deep - 1) for _ in range(draw.randrange(4))]
        return {draw.choice("abc"): value(draw, deep - 1) for _ in range(draw.randrange(4))}
    return draw.choice(plain)


def spoil(draw: random.Random, said: dict[str, object]) -> bytes:
    """Return the given message, or a spoilt one, or any bytes."""
    way = draw.randrange(8)
    if way == 0:
        return draw.randbytes(draw.choice([0, 1, 40, 5000]))
    if way == 1:
        return json.dumps(value(draw)).encode()
    if way == 2:
        level = draw.choice([10, 100, 60_000])
        return draw.choice([b"[", b'{"a":']) * level + b"]" * draw.choice([0, level])
    changed = dict(said)
    for name in draw.sample(sorted(changed), min(len(changed), draw.randrange(3))):
        if draw.random() < 0.3:
            del changed[name]
        else:
            changed[name] = value(draw)
    data = bytearray(json.dumps(changed).encode())
    if way == 3 and data:
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data[: draw.randrange(len(data) + 1)] if way == 4 else data)


def home(draw: random.Random) -> None:
    """Call home, with the secret or without; afterwards a rank is taken in as ever."""
    here = Home()
    here.open()
    with contextlib.closing(here), contextlib.ExitStack() as lines:
        hello = {"rank": 1, "world": 2, "attempt": None, "store": 1}
        for _ in range(draw.randrange(1, 6)):
            knows = here.secret.encode() if draw.random() < 0.6 else draw.randbytes(32)
            call(here, lines, knows[: draw.choice([32, 32, 32, 5])] + spoil(draw, hello) + b"\n"[: draw.randrange(2)])
            for caller in here.callers():
                assert parse_hello(json.dumps(caller.hello).encode() + b"\n") == caller.hello
                caller.line.close()
        call(here, lines, here.secret.encode() + json.dumps(hello).encode() + b"\n")
        taken = [caller for _ in range(2) for caller in here.callers()]
        assert hello in [caller.hello for caller in taken]
        for caller in taken:
            caller.line.close()
        assert len(here.refused) <= 8


def call(here: Home, lines: contextlib.ExitStack, said: bytes) -> None:
    """Say something at home, and stay on the line."""
    line = lines.enter_context(socket.socket(socket.AF_UNIX))
    line.setblocking(False)
    line.connect("\0" + here.address)
    with contextlib.suppress(OSError):
        line.send(said)


def channel(draw: random.Random) -> None:
    """Speak to the Conductor as a rank, and to a rank as the Conductor."""
    gate = Gate([0, 1], policy(Schedule("controlled", "random"), "0"))
    heard = Line(PLAN, 0)
    with contextlib.suppress(Unfit):
        for _ in range(draw.randrange(1, 8)):
            said = draw.choice(
                [
                    {"park": 0},
                    {"move": ["add", "key"], "thread": 0, "more": False},
                    {"collective": ["all", "key", 2], "thread": 1, "more": True},
                    {"issued": ["key", 2], "thread": 0},
                    {"idle": ["lock"], "locks": [{"thread": "a", "for": "b"}], "thread": 0},
                    {"blocked": "key", "thread": 0},
                    {"aside": True},
                ]
            )
            for message in heard.take(spoil(draw, said) + b"\n"):
                made_of("it", gate.hear, 0, message)
                made_of("it", gate.next)
                made_of("it", gate.stuck)
    ours, theirs = socket.socketpair()
    with ours:
        line = Channel(theirs.detach(), LIMIT_S)
        ours.sendall(spoil(draw, {"turn": 1})[: 1 << 16] + b"\n")
        ours.shutdown(socket.SHUT_WR)
        for _ in range(3):
            assert isinstance(line.hear(), dict)
        assert line.gone
        line._line.close()


def log(draw: random.Random) -> None:
    """Damage a rank's log while it is read: its reader finds events, or calls the log damaged."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rank-0.log"
        create_log(path, 1 << 14)
        writer = LogWriter(path)
        rank = Rank(SimpleNamespace(rank=0), None, {})
        with contextlib.suppress(HistoryError, Unfit), contextlib.closing(LogReader(path)) as reader:
            for _ in range(draw.randrange(1, 4)):
                for number in range(draw.randrange(1, 30)):
                    writer.mark("collective", f',"op":"op{draw.randrange(4)}","group":"0","c":', number + 1, 1, number)
                event = {"kind": draw.choice(KINDS), "n": 1, "seq": "main", "step": 1, "t": 0.5, "phase": "enter"}
                writer.write(spoil(draw, event)[: 1 << 12])
                damage(draw, path)
                for record in reader.drain():
                    made_of("it", rank.follow, parse_event(record))


def damage(draw: random.Random, path: str) -> None:
    """Write over a part of a file, mostly of its first bytes, or cut it short."""
    size = os.path.getsize(path)
    way = draw.randrange(5)
    with open(path, "r+b") as file:
        for _ in range(draw.randrange(3) if way < 3 else 0):
            file.seek(draw.randrange(64 if draw.random() < 0.6 else size))
            file.write(draw.choice([draw.randbytes(8), bytes(8), b"\xff" * 4]))
    # A process that has mapped a truncated log would die of its next write; no more is written after that.
    if way == 4 and draw.random() < 0.3:
        os.truncate(path, draw.choice([0, 8, 100, size - 1]))
        os.truncate(path, max(size - draw.randrange(2), 0))


def zygote(draw: random.Random) -> None:
    """Answer as a zygote."""
    with tempfile.TemporaryDirectory() as folder:
        session = SimpleNamespace(mark={}, kept=set(), signal=lambda *_: True)
        zygotes = Zygotes(session, Path(folder))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(LIMIT_S)
        with ours, theirs:
            said = spoil(draw, draw.choice([{"pid": 77}, {"error": "why"}]))[: 1 << 16]
            theirs.send(said) if said else theirs.close()
            answer = zygotes._ask(_Zygote("torch", 1, ours, Path(folder, "log")), {"env": {}}, [])
            assert isinstance(answer.get("error"), str) or answer["pid"] >= 2, answer


def supervisors(draw: random.Random) -> None:
    """Speak to a supervisor as its owner. At a wrong word, or at silence, it ends with all processes below it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno()), str(os.getpid())]
    with ours, subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE) as process:
        theirs.close()
        ours.settimeout(LIMIT_S)
        null = os.open(os.devnull, os.O_RDWR)
        spawn = {"do": "spawn", "id": 0, "argv": ["sleep", "1000"], "env": dict(os.environ), "cwd": "/"}
        spawn |= {"join": 0, "walls": [0, 0]}
        socket.send_fds(ours, [json.dumps(spawn).encode()], [null] * 3)
        os.close(null)
        child = json.loads(ours.recv(1 << 20))["pid"]
        others = [
            {"do": "signal", "pid": child, "signal": 0},
            {"do": "clear", "keep": [child]},
            {"do": "adopt", "pid": 1},
        ]
        with contextlib.suppress(OSError):
            for _ in range(draw.randrange(1, 4)):
                ours.send(spoil(draw, draw.choice([spawn, *others])) or b"{}")
        ours.close()
        assert process.wait(LIMIT_S) == 0
        assert process.stderr is not None and process.stderr.read() == b""
        assert not os.path.exists(f"/proc/{child}"), "it left a process"


def names(draw: random.Random) -> None:
    """Ask the name server of a sandbox."""
    known = {host_name(rank): address(rank) for rank in range(2)}
    name = b"".join(bytes([len(label)]) + label for label in (b"rank-1",)) + b"\0"
    question = bytearray(draw.randbytes(2) + b"\1\0\0\1\0\0\0\0\0\0" + name + b"\0\1\0\1")
    for _ in range(draw.randrange(4)):
        question[draw.randrange(len(question))] = draw.randrange(256)
    question = question[: draw.randrange(len(question) + 1)] + draw.randbytes(draw.choice([0, 0, 400]))
    answer = answer_name(bytes(question), known)
    assert len(answer) <= len(question) + 16


TALKS: dict[str, Callable[[random.Random], None]] = {
    "home": home,
    "channel": channel,
    "log": log,
    "zygote": zygote,
    "supervisor": supervisors,
    "names": names,
}


def hold(kind: str, first: int, count: int) -> Iterator[str]:
    """Hold conversations of one kind, one seed after the other; yield a line for each that went wrong."""
    for seed in range(first, first + count):
        try:
            TALKS[kind](random.Random(f"{kind}:{seed}"))
        except Exception as error:
            yield f"{kind}, seed {seed}: {type(error).__name__}: {error}"
