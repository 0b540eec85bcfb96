"""One node: the Conductor's end of the wire to its deputy. It is the place of the ranks there, and tells of them."""

from __future__ import annotations

import base64
import contextlib
import select
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from breakrank.errors import CutShortError
from breakrank.host.blocked import Look
from breakrank.host.node_pid import NodePid
from breakrank.host.wire import Wire, WireCut
from breakrank.nodes.rank_there import RankThere
from breakrank_agent.protocol.checked import Unfit, check, is_flag, is_text, maybe, whole

#: The seconds that a deputy may take to answer; it may read native stacks meanwhile.
ANSWER_S = 60.0
#: Round trips by which the clock of a node is compared with ours.
_TRIPS = 16
#: The most reads in a row, the most bytes of a part of a file, and seconds between signs of life over another's pipes.
_MOST_READS, _PART, PING_S = 64, 1 << 20, 5.0
_IS_PID = whole(0, 1 << 22)
_REPORT = {"child": _IS_PID, "what": is_text, "status": maybe(whole(-256, 256))}


class Offset(NamedTuple):
    """The seconds by which a node's monotonic clock is ahead of ours, and by how much that may be wrong."""

    seconds: float
    error: float

    def rounded(self) -> dict[str, float]:
        """Return the values of an event."""
        return {"offset_s": round(self.seconds, 6), "error_s": round(self.error, 6)}


class Node:
    """A node by its `name`. `lost` says more about a wire that is cut, such as how the deputy ended.

    Raises `CutShortError`, with the node's name, from whatever needs the deputy when it is gone.
    """

    def __init__(self, name: str, wire: Wire, hello: dict[str, Any], lost: Callable[[], str] = lambda: "") -> None:
        self._name, self._wire, self._why_lost = name, wire, lost
        #: The folder in which the ranks there work.
        self.work = ""
        #: The deputy may be gone once all ranks that it took in have ended: it went with their step.
        self.leaves = False
        #: The facts that the deputy told about itself and its machine.
        self.hello = hello
        self.offset = Offset(0.0, 0.0)
        #: Processes that have called at the node's door and said who they are: key, pid, and what they said.
        self.callers: list[dict[str, Any]] = []
        self._ranks: dict[str, RankThere] = {}
        #: The processes that were ranks there and have not ended; None before the first.
        self._live: set[int] | None = None
        self._sights: dict[int, dict[str, Any] | None] = {}
        #: The ranks that are watched: the number of the watch, and the call that they were in as it began.
        self._watches: dict[int, tuple[int, str]] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._reports: list[dict[str, Any]] = []
        self._asked = self._began = 0
        self._pinged = time.monotonic()
        self._cut = ""
        #: The deputy has left, as it may.
        self._left = False
        self._poll = select.epoll()
        self._poll.register(wire, select.EPOLLIN)

    # --- as a place

    @property
    def name(self) -> str:
        """The name by which the user knows the node."""
        return self._name

    def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer to a question. Raises `OSError` with the words of the node, or `CutShortError`."""
        return self.begin(question, *arguments)()

    def begin(self, question: str, *arguments: Any) -> Callable[[], Any]:
        """Ask, and return what waits for the answer and returns it: other places can be asked meanwhile."""
        return self._begin("ask", question=question, arguments=list(arguments))

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal to a rank there; return False if it has ended."""
        return bool(self.begin_signal(pid, number)())

    def begin_signal(self, pid: int, number: int) -> Callable[[], Any]:
        """Send a signal to a rank there, and return what waits until that is done."""
        return self._begin("signal", pid=pid, signal=int(number))

    def has_sight(self, pid: int, call: str) -> bool:
        """Return whether a look at a rank has come that was not taken. The rank is watched there from now on."""
        if pid not in self._watches or self._watches[pid][1] != call:
            self._began += 1
            self._watches[pid] = self._began, call
            self._sights.pop(pid, None)
            self.send("watch", pid=pid, watch=self._began, call=call)
        return pid in self._sights

    def take_sight(self, pid: int) -> dict[str, Any] | None:
        """Return that look in plain values; None says that the main thread gets on with something."""
        return self._sights.pop(pid)

    def unwatch(self, pid: int) -> None:
        """Watch a rank no more."""
        if self._watches.pop(pid, None) is not None and not self._cut:
            self._sights.pop(pid, None)
            self.send("unwatch", pid=pid)

    # --- as a source of reports

    def fileno(self) -> int:
        """Return the descriptor that is readable when the node, or the Conductor for it, has something to say."""
        return self._poll.fileno()

    def told(self) -> Iterator[dict[str, Any]]:
        """Yield what has come of the ranks there since the last call."""
        self.pump()
        reports, self._reports = self._reports, []
        yield from reports

    # --- ranks

    def spawn(self, key: str, boot: dict[str, Any], how: dict[str, Any]) -> RankThere:
        """Start a rank there; `how` says argv, env, cwd, and by which variable it gets `boot`.

        Raises `OSError` with the words of the node if it cannot be started.
        """
        return self._take(key, "spawn", boot, ("out", "err"), **how)

    def admit(self, key: str, boot: dict[str, Any]) -> RankThere:
        """Take in a caller of the node's door as a rank. Raises `ProcessLookupError` if it has ended since."""
        return self._take(key, "admit", boot, ())

    def refuse(self, key: str) -> None:
        """Hang up on a caller of the node's door."""
        self.send("refuse", rank=key)

    def _take(self, key: str, do: str, boot: dict[str, Any], pipes: tuple[str, ...], **how: Any) -> RankThere:
        there = self._ranks[key] = RankThere(self, key, pipes)
        self._poll.register(there.relay, select.EPOLLIN)
        try:
            there.pid = NodePid(self, int(self._await(do, rank=key, boot=boot, **how)))
            self._live = {*(self._live or ()), there.pid.number}
        except OSError:
            self.drop(there)
            there.close()
            raise
        return there

    def drop(self, there: RankThere) -> None:
        """Forget a rank that has ended."""
        if self._ranks.pop(there.key, None) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._poll.unregister(there.relay)
            if not self._cut:
                with contextlib.suppress(CutShortError):
                    self.send("drop", rank=there.key)

    def put(self, path: str, data: bytes) -> None:
        """Lay a file into the deputy's folder."""
        for at in range(0, max(1, len(data)), _PART):
            part = base64.b64encode(data[at : at + _PART]).decode()
            self.send("put", path=path, data=part, more=at > 0)
            while self._wire.unsent:
                self._wait()

    def clear(self) -> int:
        """End what the ranks there have left running; return how many processes there were."""
        return int(self._await("clear"))

    # --- the clock

    def compare_clocks(self) -> Offset:
        """Measure how far the node's clock is ahead; from now on it tells times as our clock has them."""
        found = []
        for _ in range(_TRIPS):
            before = time.monotonic()
            there = float(self.ask("clock"))
            trip = time.monotonic() - before
            found.append(Offset(there - before - trip / 2, trip / 2))
        self.offset = min(found, key=lambda one: one.error)
        self.send("shift", seconds=-self.offset.seconds)
        return self.offset

    # --- the wire

    def send(self, do: str, **values: Any) -> None:
        """Say something that has no answer. Raises `CutShortError`."""
        if self._left:
            return
        try:
            self._wire.send(do=do, **values)
        except WireCut as error:
            if not self._has_left():
                raise self._is_lost(str(error)) from None

    def pump(self) -> None:
        """Take what has come from the node, and pass on what the Conductor says to ranks. Raises `CutShortError`."""
        if self._cut:
            raise CutShortError(self._cut)
        for there in list(self._ranks.values()):
            there.pass_on()
        if self._left:
            return
        try:
            self._wire.flush()
            for _ in range(_MOST_READS):
                messages = self._wire.receive()
                for message in messages:
                    self._take_message(message)
                if not messages:
                    break
        except WireCut as error:
            if self._has_left():
                return
            raise self._is_lost(str(error)) from None
        except (Unfit, ValueError, KeyError, TypeError) as error:
            raise self._is_lost(f"what it says is damaged: {error}") from None
        if time.monotonic() - self._pinged > PING_S:
            self._pinged = time.monotonic()
            self.send("ping")

    def close(self) -> None:
        """Hang up: the deputy ends all that it has started, and itself."""
        for there in list(self._ranks.values()):
            self.drop(there)
        self._cut = self._cut or f"host {self._name} was left"
        self._poll.close()
        self._wire.close()

    def _has_left(self) -> bool:
        """Return whether a deputy whose wire is cut was free to go: all that it knew has come before."""
        if not self.leaves or self._live is None or self._live or self._cut:
            return False
        if not self._left:
            self._left = True
            with contextlib.suppress(OSError, ValueError):
                self._poll.unregister(self._wire)
        return True

    def _is_lost(self, why: str) -> CutShortError:
        if not self._cut:
            more = self._why_lost()
            self._cut = f"host {self._name} is lost: {more or why}"
        return CutShortError(self._cut)

    def _await(self, do: str, **values: Any) -> Any:
        """Say something, and return the answer. Raises `OSError` or `CutShortError`."""
        return self._begin(do, **values)()

    def _begin(self, do: str, **values: Any) -> Callable[[], Any]:
        """Say something, and return what waits for the answer. Both raise `OSError` or `CutShortError`."""
        if self._cut:
            raise CutShortError(self._cut)
        self._asked += 1
        self.send(do, id=self._asked, **values)
        return partial(self._answer_to, self._asked)

    def _answer_to(self, number: int) -> Any:
        until = time.monotonic() + ANSWER_S
        while number not in self._answers:
            if self._left:
                raise ProcessLookupError(f"the ranks of {self._name} have ended, and their deputy has left")
            if time.monotonic() > until:
                raise self._is_lost(f"it did not answer within {ANSWER_S:g} s")
            self._wait()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise OSError(answer["errno"], answer["error"]) if answer["errno"] else OSError(answer["error"])
        return answer["value"]

    def _wait(self) -> None:
        self._wire.wait(1.0)
        self.pump()

    def _take_message(self, message: dict[str, Any]) -> None:
        if "answer" in message:
            check(message, {"answer": whole()}, {"error": is_text, "errno": whole()})
            self._answers[message["answer"]] = message
        elif "look" in message:
            self._take_look(message)
        elif "what" in message:
            check(message, _REPORT)
            if message["what"] == "ended" and self._live is not None:
                self._live.discard(message["child"])
            self._reports.append({**message, "child": NodePid(self, message["child"])})
        elif "caller" in message:
            check(message, {"caller": is_text, "pid": _IS_PID})
            self.callers.append(message)
        elif message.get("rank") in self._ranks:
            self._ranks[message["rank"]].take(message)

    def _take_look(self, message: dict[str, Any]) -> None:
        check(message, {"look": _IS_PID, "watch": whole(), "moves": is_flag})
        pid = message["look"]
        if pid in self._watches and self._watches[pid][0] == message["watch"]:
            seen = None if message["moves"] else message["seen"]
            if seen is not None:
                Look.from_json(seen)
            self._sights[pid] = seen
