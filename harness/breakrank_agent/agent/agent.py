"""The agent inside a rank: it counts logical time, strikes where a strike is due, and records.

Hooks call `Agent.reach` on entering a point and `Agent.payload` for what the point handled. There is one agent in a
process, or none. A child of a rank is none itself: it makes no points. One that is watched has an agent that records
what it reads and writes, and what orders it with others, in a log of its own; any other has none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
import threading
import time
from _thread import RLock
from array import array
from collections.abc import Iterator
from threading import get_ident
from types import FrameType
from typing import Any, Callable, Optional
from weakref import ref

from breakrank_agent.agent.access_log import STRANGE, Accesses, Span, process_key
from breakrank_agent.agent.call_sites import Sites
from breakrank_agent.agent.channel import Channel
from breakrank_agent.agent.thread_scheduler import Member, Turns
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.clock import MAIN, Clock
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.log import NUMBER, RECORD_LIMIT, LogWriter, encode, event_text, members, pause
from breakrank_agent.protocol.payload import Call, Part, Payload, Wrapper
from breakrank_agent.schedules import policy

#: What strikes wait for that a hook is to hand to them, in words.
_AWAITED = {"batch": "a batch from a loader", "wrapper": "a call of a wrapper that reduces gradients, such as DDP's"}

_agent: Optional[Agent] = None
_active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]


class Agent:
    """The agent of one rank in one attempt."""

    #: What each point asks for lies side by side: what a point costs is how much memory it touches.
    __slots__ = (
        *("__dict__", "_alone", "_armed", "_inside", "_log", "before_point", "clock", "flying", "look_back", "main"),
        *("over", "quiet", "sees"),
    )

    def __init__(self, plan: Plan, rank: int, attempt: int, log: LogWriter, channel: Optional[Channel]) -> None:
        self._inside = False
        #: Whether the last event is on record.
        self.over = False
        #: What is under way: as long as it is empty, there is nothing to look back at.
        self.flying: dict[int, Any] = {}
        self.main = threading.main_thread().ident
        #: Called before each point of the main thread, while somebody looks for something.
        self.before_point: Optional[Callable[[], None]] = None
        self._alone = not _free_threads()
        self.clock = Clock()
        self._log = log
        #: Whether a strike was armed here.
        self._armed = False
        #: The threads in which the agent itself works with tensors or files, and how deep they are in it.
        self.quiet: dict[int, int] = {}
        #: Whether this is the rank's own process, and not a child that it forked.
        self.here = True
        #: Whether reads, writes and syncs of this process go on record.
        self.sees = True
        #: The name of the child that this process is; empty in the rank's own process.
        self.child = ""
        #: Where the log lies, and the plan, if they have paths that a child can open, too.
        self.log_path = self.plan_path = ""
        #: The name and the log of a child that a thread is about to fork, and that is to be watched, and the thread.
        self.forks: Optional[tuple[str, str, int]] = None
        #: What hooks do when a process goes on as such a child.
        self.in_child: list[Callable[[], None]] = []
        self.steps_by = ""
        self.plan = plan
        self.rank = rank
        self.attempt = attempt
        self.channel = channel
        self.folder = os.getcwd()
        self.controlled = plan.schedule.mode == "controlled" and channel is not None
        self.accesses = Accesses(self)
        #: Whether accesses are recorded: somebody judges them, or chooses between them.
        self.watches = self.controlled or not {"race", "files"}.isdisjoint(plan.oracles)
        #: Which of this rank's threads moves, under a controlled schedule.
        self.turns: Optional[Turns] = None
        if self.controlled and channel is not None:
            chosen = policy(plan.schedule.of_threads(rank), f"{plan.seed}:{attempt}:{rank}")
            self.turns = Turns(chosen, channel, self._note_pick, self._where)
        #: What makes a thread of the user's visible to the hooks of frameworks: entered there, left at its end.
        self.in_threads: list[Callable[[], Any]] = []
        #: What the hooks of the loaded framework offer; set by them.
        self.handles: Optional[Payload] = None
        self.summarize: Callable[[], dict[str, Any]] = dict
        #: What has called the backward pass that the main thread is in. A backend's own thread then acts on its behalf.
        self.backward: Optional[FrameType] = None
        #: Whether peers may still be taking what this rank has sent them, when it is through; set by a hook.
        self.lingers = False
        #: The threads that act for the main thread now, which waits for them.
        self.acting: set[int] = set()
        #: Called on entering a point, and before the last event: what was under way may have been completed meanwhile.
        self.look_back: Callable[[], None] = _nothing
        self.sites = Sites(self.folder)
        #: The collectives under way, and what they read and write, where that is asked for; set by their hooks.
        self.works: Any = None
        self.contents: Any = None
        #: Called with what is about to be read as a whole, and by which operation; set by the hook that records it.
        self.reading: Callable[[Any, str], None] = _nothing
        #: Called with the operator and arguments of a collective, and whether it goes on after the call; likewise.
        self.taking: Callable[[Any, Any, bool], None] = _nothing
        #: Called when a thread that Python has not started touches what is watched; set by the hook of threads.
        self.natives: Callable[[], None] = _nothing
        #: The threads in which something larger is saved or loaded, of which each file is a part.
        self.larger: set[int] = set()
        #: Whether a framework makes a step that is none of the training.
        self.pretends = False
        #: Called at the end of each step, when all else of it is on record.
        self.after_step: list[Callable[[], None]] = []
        #: What counts the things that are alive, where that is asked for; set by its hook, for those of frameworks.
        self.census: Any = None
        self._state: Optional[dict[str, Any]] = None
        self._lock = RLock()
        #: By identity: the sequence of a thread, and the thread, if it is one of Python's. Identities come again.
        self._sequences: dict[int, tuple[str, Optional[ref[threading.Thread]]]] = {}
        self._unnamed = 0
        #: How many events the other threads' sequences have; the log counts the main thread's.
        self._counts: dict[str, int] = {}
        self._pid = os.getpid()
        os.register_at_fork(before=self._hush, after_in_parent=self._speak, after_in_child=self._leave)
        self._due: dict[tuple[int, str, int], list[tuple[int, Strike]]] = {}
        #: Strikes of lasting faults that have begun, here or in an earlier attempt, by point.
        self._lasting: dict[str, list[tuple[int, Strike]]] = {}
        #: Strikes that have fired and wait for what a hook is to hand to them, by what that is.
        self.awaiting: dict[str, list[tuple[int, Strike]]] = {}
        for index, strike in enumerate(plan.strikes):
            trigger = strike.trigger
            if rank in strike.ranks and trigger.attempt == attempt:
                self._due.setdefault((trigger.step, trigger.point, trigger.visit), []).append((index, strike))
            elif rank in strike.ranks and trigger.attempt < attempt and strike.fault.lasts():
                self._lasting.setdefault(trigger.point, []).append((index, strike))
        self._armed = bool(self._due or self._lasting)
        if channel is not None:
            log.gone, log.forsaken = lambda: channel.gone, self._give_up

    def _give_up(self) -> None:
        """Record nothing more: nobody reads it, and there is no room. The program goes on as if we were not there."""
        self.over, self.sees = True, False

    def begin(self, **facts: Any) -> None:
        """Write the first event, and one for every strike that is armed here."""
        self.record("rank", attempt=self.attempt, slot=self.rank, rank=self.rank, pid=self._pid, **facts)
        for due in [*self._due.values(), *self._lasting.values()]:
            for index, _ in due:
                self.record("strike", strike=index, phase="armed")

    def _hush(self) -> None:
        """Let what this thread does pass unseen; a fork, too: Python renews locks in the child before we leave it."""
        ident = get_ident()
        self.quiet[ident] = self.quiet.get(ident, 0) + 1

    def _speak(self) -> None:
        ident = get_ident()
        self.quiet[ident] -= 1
        if not self.quiet[ident]:
            del self.quiet[ident]

    def _leave(self) -> None:
        """A child that the rank forked is no rank."""
        self.here = self.sees = False
        self.over = True
        if self.forks is not None and self.forks[2] == get_ident():
            self.be_child(*self.forks[:2])

    def be_child(self, name: str, path: str) -> None:
        """Go on as a child that is watched: with a log of its own, and without the schedule, whose line is the rank's.

        The fork was made in the midst of anything: locks of the other threads, which are not here, are made anew.
        """
        self._log = LogWriter(path)
        self.child, self.log_path, self.forks = name, path, None
        self.here, self.over, self.sees, self.watches = False, True, True, True
        self.channel = self.turns = None
        self.controlled = False
        self.main = get_ident()
        self._lock, self._alone, self._inside = RLock(), not _free_threads(), False
        self._sequences, self._counts, self._unnamed = {}, {}, 0
        self.quiet.clear()
        self.accesses.begin_anew()
        for follow in self.in_child:
            follow()
        self.accesses.sync("acquire", process_key(self.rank, name))

    @property
    def busy(self) -> bool:
        """Whether the agent itself is at work in this thread: hooks then pass everything through."""
        return bool(self.quiet) and get_ident() in self.quiet

    def record(self, kind: str, **values: Any) -> None:
        """Append an event to this thread's sequence."""
        self.record_text(kind, members(values))

    def touch(self, sequence: str, values: str, pick: Optional[int]) -> None:
        """Append an access of which the values are JSON already, and come again, to this thread's sequence."""
        with self._lock:
            self._come_in()
            number, name = self._next_of(sequence)
            if not self._log.access(f"{name} {values}", number, self.clock.step, pick):
                said = values if pick is None else f'{values},"pick":{pick}'
                self._write("access", number, name, said)

    def record_text(self, kind: str, values: str) -> None:
        """Append an event of which the values are JSON already to this thread's sequence."""
        if get_ident() == self.main:
            self._inside = True
            try:
                if self._alone:
                    self._append(kind, MAIN, values)
                    return
            finally:
                self._inside = False
        with self._lock:
            self._come_in()
            self._append(kind, self._sequence(), values)

    def record_of(self, sequence: str, kind: str, **values: Any) -> None:
        """Append an event to another thread's sequence."""
        with self._lock:
            self._come_in()
            self._append(kind, sequence, members(values))

    def name_sequence(self, name: str) -> None:
        """Give this thread's sequence its name."""
        ident = get_ident()
        thread = pythons(ident)
        self._sequences[ident] = name, None if thread is None else ref(thread)

    def sequence(self) -> str:
        """Return the name of this thread's sequence."""
        ident = get_ident()
        if ident == self.main:
            return MAIN
        known = self._sequences.get(ident)
        if known is not None and known[1] is not None and known[1]() is _active.get(ident):
            return known[0]
        with self._lock:
            return self._sequence()

    def strange(self, sequence: str) -> bool:
        """Whether a thread is one that nobody watches: what it waits for is not known, so neither is its order."""
        if not sequence.startswith(STRANGE):
            return False
        if pythons(get_ident()) is None:
            self.natives()
        return True

    def _append(self, kind: str, sequence: str, values: str) -> None:
        """Write an event of which the values are JSON already."""
        number, name = self._next_of(sequence)
        self._write(kind, number, name, values)

    def _next_of(self, sequence: str) -> tuple[int, str]:
        """Return the number of the next event of a sequence, and the name that is on record."""
        if sequence == MAIN:
            number = self._log.count
            self._log.count = number + 1
        else:
            number = self._counts.get(sequence, 0)
            self._counts[sequence] = number + 1
        if not self.child:
            return number, sequence
        return number, self.child if sequence == MAIN else f"{self.child}/{sequence}"

    def _write(self, kind: str, number: int, name: str, values: str) -> None:
        line = event_text(kind, number, name, self.clock.step, time.monotonic(), values)
        self._log.write(line if len(line) <= RECORD_LIMIT else encode(json.loads(line)))

    def _come_in(self) -> None:
        """Let one thread write at a time. Called with the lock held.

        As long as the main thread is alone it takes no lock, which would cost as much as the record. Whoever else
        comes takes the lock, says so, and waits until the main thread is through with what it writes; from then on that
        takes the lock, too. It is never inside while it waits for the lock.
        """
        if get_ident() != self.main:
            self._alone = False
            while self._inside:
                pause(0)

    def _sequence(self) -> str:
        """Return the name of this thread's sequence.

        While the main thread is in a backward pass it waits, and a device's collectives come from the autograd engine's
        thread, which is none of Python's. DDP starts its buckets in one order, so that these are the main thread's
        points, counted with its own.
        """
        ident = get_ident()
        if ident == self.main or ident in self.acting:
            return MAIN
        thread = pythons(ident)
        if self.backward is not None and thread is None:
            return MAIN
        name, known = self._sequences.get(ident, ("", None))
        if not name or (known() if known is not None else None) is not thread or (known is None) != (thread is None):
            self._unnamed += 1
            # The user's threads have their names from their hook, if they are watched; these are others then.
            name = f"{STRANGE if self.watches else 'thread-'}{self._unnamed}"
            self._sequences[ident] = name, None if thread is None else ref(thread)
        return name

    def reach(self, point: str, facts: str = "", number: int = 0, says: str = "") -> None:
        """Enter a point: record it, and strike if a strike is due.

        `facts` are values that are JSON already, and come again; if `number` is not 0, they end with its name. `says`
        are further ones, which do not come again.
        """
        if self.over:
            return
        if self.flying:
            self.look_back()
        if get_ident() == self.main:
            if self.before_point is not None:
                self.before_point()
            self._inside = True
            try:
                alone = self._alone
                if alone:
                    step, visit = self.clock.enter(point)
                    if says or not self._log.mark(point, facts, number, step, visit):
                        self._append("point", MAIN, _in_full(point, visit, facts, number, says))
            finally:
                self._inside = False
            if alone:
                if self._armed:
                    self._strike(step, point, visit)
                return
        self._reach_in_company(point, facts, number, says)

    def _reach_in_company(self, point: str, facts: str, number: int, says: str) -> None:
        """Enter a point where there are several threads that may write."""
        with self._lock:
            self._come_in()
            sequence = self._sequence()
            main = sequence == MAIN
            step, visit = self.clock.enter(point) if main else self.clock.enter_beside(point, sequence)
            self._append("point", sequence, _in_full(point, visit, facts, number, says))
        if self._armed and (main or point == "step"):
            self._strike(step, point, visit)

    def complete(self, facts: str, number: int, says: str = "") -> None:
        """Record that a collective is over; `facts` end with the name of its number, `says` is what else there is."""
        if self.over:
            return
        if not says and get_ident() == self.main:
            self._inside = True
            try:
                if self._alone and self._log.mark("done", facts, number, self.clock.step, 0):
                    return
            finally:
                self._inside = False
        self.record_text("done", f"{facts}{number}{says}")

    def count(self, of: str, name: str, numbers: list[Any]) -> bool:
        """Record what a point handled, where it is a list of whole numbers; return False if it is not, or too long."""
        try:
            packed = array(NUMBER, numbers)
        except (TypeError, OverflowError):
            return False
        if self.over or not self.here or get_ident() != self.main:
            return False
        self._inside = True
        try:
            return self._alone and self._log.numbers(f',"of":"{of}","{name}":', packed, self.clock.step)
        finally:
            self._inside = False

    def close_step(self, by: str) -> None:
        """End the step, if `by` is what counts the steps of this program."""
        if self.over or not self.here:
            return
        if by != self.steps_by and not self._is_counted(by):
            return
        self.reach("step")
        if self.plan.payloads:
            self.payload("step", **self._summary())
        for follow in self.after_step:
            follow()
        if self.clock.done == self.plan.until:
            self._stop_here(self.clock.done)

    def _is_counted(self, by: str) -> bool:
        """Take what ends a step here for the first time for what counts the steps, or not; return whether it did so."""
        if (self.plan.step and by != self.plan.step) or (self.steps_by and by != "the program"):
            return False
        # A program that says its steps says the first one after its backward pass, which had counted until then.
        first = not self.steps_by
        self.steps_by = by
        self.record("note", text=f"steps are counted by {by}", steps_by=by)
        return first

    def take_turn(self, op: str, mode: str, key: str, span: Optional[Span] = None, **facts: Any) -> None:
        """Wait for a turn among the ranks, if the schedule is controlled; record what is then read or written."""
        if self.turns is not None and not self.over and self.turns.me() is not None:
            self.turns.point()
            turn = self.turns.ask({"move": [op, key]}).get("turn")
            self.accesses.access(op, mode, key, span, turn=turn, **facts)
        elif self.watches and self.turns is None:
            self.accesses.access(op, mode, key, span, **facts)

    def _where(self, ident: int) -> str:
        """Return the line of the user's code that a thread is in."""
        return self.sites.above(sys._current_frames().get(ident)).line

    def _note_pick(self, member: Member) -> None:
        pick = member.take_pick()
        if pick is not None:
            self.accesses.yielded(member.name, pick)

    def payload(self, of: str, **values: Any) -> None:
        """Record what a point handled."""
        if values and not self.over and self.here:
            self.record("payload", of=of, **values)

    def raised(self, point: str, error: BaseException, **values: Any) -> None:
        """Record that an exception passes through a point."""
        if not self.over and self.here:
            self.record("raised", point=point, type=type(error).__name__, message=str(error)[:500], **values)

    def tell(self, name: str, values: dict[str, Any]) -> None:
        """Record what the program said."""
        if not self.over and self.here:
            self.record("told", name=name, values=values)

    def set_state(self, values: dict[str, Any]) -> None:
        """Keep what the program named as its result."""
        self._state = values

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        """Let the agent's own work in this thread pass every hook unseen."""
        self._hush()
        try:
            yield
        finally:
            self._speak()

    def _strike(self, step: int, point: str, visit: int) -> None:
        due = self._due.pop((step, point, visit), [])
        struck = [*self._lasting.get(point, []), *due]
        for index, strike in due:
            if strike.fault.lasts():
                self._lasting.setdefault(point, []).append((index, strike))
        for index, strike in struck:
            self.record("strike", strike=index, phase="fired", point=point, visit=visit)
            if strike.fault.side == "outside":
                if self.channel is not None:
                    self.channel.ask({"park": index})
            else:
                self._strike_inside(index, strike)

    def adopt(self, handles: Payload, summarize: Callable[[], dict[str, Any]], trains: bool = True) -> None:
        """Take what a framework's hook offers: from whichever is imported first, until another one `trains`."""
        if trains or self.handles is None:
            self.handles, self.summarize = handles, summarize

    def strikes_on(self, what: str) -> bool:
        """Whether a strike is armed to which a hook is to hand this."""
        return any(strike.fault.on == what for due in self._due.values() for _, strike in due)

    def take_collective_strikes(self) -> list[tuple[int, Strike]]:
        """Fire and return the strikes that are due on the collective which the main thread is about to issue.

        They come before the point is entered, so that what is on record is what the rank then issues.
        """
        if self.over or not self.here or self._sequence() != MAIN:
            return []
        visit = self.clock.next_visit("collective")
        due = self._due.get((self.clock.step, "collective", visit), [])
        taken = [item for item in due if item[1].fault.on == "collective"]
        for item in taken:
            due.remove(item)
            self.record("strike", strike=item[0], phase="fired", point="collective", visit=visit)
        return taken

    def take_strikes(self, on: str) -> list[tuple[int, Strike]]:
        """Return the strikes that have fired and wait for this: a batch being loaded, a wrapper being called."""
        return self.awaiting.pop(on, [])

    def _strike_inside(self, index: int, strike: Strike) -> None:
        if strike.fault.on in ("batch", "wrapper"):
            # It is not there yet: its hook strikes it as soon as it is.
            self.awaiting.setdefault(strike.fault.on, []).append((index, strike))
            return
        handles = self.handles or NoHandles()
        look = functools.partial(_digest, handles.gradients) if strike.fault.witness == "gradients" else self._params
        before, ahead = look(), self._ahead(strike)
        wall, computed = time.monotonic(), time.thread_time()
        with self.quietly():
            strike.fault.strike_inside(handles)
        # What the fault did is read again here, by code that knows nothing of it.
        took: dict[str, Any] = {"wall_s": time.monotonic() - wall, "cpu_s": time.thread_time() - computed}
        if ahead is not None:
            took["ahead_s"] = [ahead, self._ahead(strike)]
        self.record("strike", strike=index, phase="seen", before=before, after=look(), **took)

    def _ahead(self, strike: Strike) -> Optional[float]:
        """Return how far the wall clock is ahead of the kernel's own, by which it dates files, where that is asked."""
        if strike.fault.witness != "clock":
            return None
        with self.quietly():
            file = os.memfd_create("breakrank-clock")
            try:
                os.utime(file)
                return time.time() - os.fstat(file).st_mtime
            finally:
                os.close(file)

    def _params(self) -> Optional[str]:
        return self._summary().get("params")

    def _summary(self) -> dict[str, Any]:
        """Return what is to be said of the parameters: nothing where they cannot be read, and then why, once."""
        try:
            return self.summarize()
        except Exception as error:
            # Torch has tensors of many kinds, and users make more: what we do not understand is not theirs to suffer.
            self.summarize = dict
            self.record("note", text=f"the parameters cannot be read: {type(error).__name__}: {error}", limits=True)
            return {}

    def _stop_here(self, step: int) -> None:
        """The last step that was asked for is made: end well, at once, when no rank needs this one any more."""
        self.finish("steps", 0)
        if self.channel is not None:
            self.channel.ask({"done": step})
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)

    def finish(self, how: str, code: Optional[int], error: Optional[BaseException] = None) -> None:
        """The main module is over: write the report, if there is one, and the last point."""
        if self.over or not self.here:
            return
        if error is not None:
            self.record(
                "report",
                type=type(error).__name__,
                message=str(error)[:2000],
                code=code,
                frames=_frames(error),
            )
        elif code:
            self.record("report", type="SystemExit", message=f"left with exit code {code}", code=code, frames=[])
        self.reach("end")
        for on, waiting in self.awaiting.items():
            for index, _ in waiting:
                text = f"strike {index} waited in vain for {_AWAITED[on]}"
                self.record("note", text=text, limits=True)
        if self.works is not None:
            self.works.forget()
        self.record("end", how=how, code=code, state=self._state, **self._summary())
        self.over, self.sees = True, False
        if self.turns is not None:
            self.turns.leave()

    def take_leave(self) -> None:
        """Wait until no peer is in a collective that is over here, where the end of this process would break it."""
        if self.lingers and self.here and self.channel is not None:
            self.channel.ask({"leaves": True})

    def relative(self, path: Any) -> str:
        """Return a path as it reads from the working folder."""
        text = os.fsdecode(path)
        absolute = os.path.abspath(text)
        if absolute.startswith(self.folder + os.sep):
            return absolute[len(self.folder) + 1 :]
        return absolute


def _in_full(point: str, visit: int, facts: str, number: int, says: str) -> str:
    """Return the values of a point that did not fit into few words."""
    return f',"point":"{point}","visit":{visit}{facts}{number or ""}{says}'


def _free_threads() -> bool:
    """Whether this interpreter has no global lock, which the order of two writes relies on."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def _nothing(*_: Any) -> None:
    """Do nothing."""


def pythons(ident: int) -> Optional[threading.Thread]:
    """Return a thread that Python started. One of a backend is unknown to it, or known as a stand-in."""
    thread = _active.get(ident)
    return None if isinstance(thread, threading._DummyThread) else thread


class NoHandles:
    """What a fault gets before any framework has offered something."""

    def buffers(self) -> list[tuple[str, memoryview]]:
        """Raise `RuntimeError`: there are no parameters yet."""
        raise RuntimeError("no parameters are known at this point")

    def gradients(self) -> list[tuple[str, memoryview]]:
        """Raise `RuntimeError`: there are no parameters yet."""
        raise RuntimeError("no parameters are known at this point")

    def batch(self) -> list[Part]:
        """Raise `RuntimeError`: nothing is being loaded."""
        raise RuntimeError("no batch is known at this point")

    def collective(self) -> Call:
        """Raise `RuntimeError`: nothing is being issued."""
        raise RuntimeError("no collective is known at this point")

    def wrapper(self) -> Wrapper:
        """Raise `RuntimeError`: nothing is being called."""
        raise RuntimeError("no wrapper is known at this point")


def _digest(read: Callable[[], list[tuple[str, memoryview]]]) -> str:
    """Return a digest of all the bytes that `read` returns."""
    digest = hashlib.blake2b(digest_size=8)
    for _, raw in read():
        digest.update(raw)
    return digest.hexdigest()


def _frames(error: BaseException) -> list[list[Any]]:
    """Return (file, line, function) of the last ten frames of the traceback, innermost last."""
    frames: list[list[Any]] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if os.sep + "breakrank_agent" not in code.co_filename:
            frames.append([code.co_filename, trace.tb_lineno, code.co_name])
        trace = trace.tb_next
    return frames[-10:]


def start(agent: Agent) -> None:
    """Make `agent` the agent of this process."""
    global _agent
    _agent = agent


def take_leave() -> None:
    """Wait for the peers that need this process a moment longer."""
    if _agent is not None:
        _agent.take_leave()


def step() -> None:
    """End a training step: for programs without an optimizer, or whose steps are something else."""
    if _agent is not None:
        _agent.close_step("the program")


def tell(name: str, **values: Any) -> None:
    """Record named plain values, such as `tell("loss", loss=0.3)`."""
    if _agent is not None:
        _agent.tell(name, values)


def state(**values: Any) -> None:
    """Name what the final result is compared by, such as `state(updates=10)`, in place of the parameters."""
    if _agent is not None:
        _agent.set_state(values)
