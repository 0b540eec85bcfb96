"""The threads that the user's code starts, and what they wait for each other with.

`threading`, `queue` and `concurrent.futures` are written in Python on top of one kind of lock. Put in its place, a lock
of ours puts every condition, event, semaphore, barrier, queue and future on record, and under a controlled schedule
lets others move while a thread waits. Only threads that the user's own code starts take part: those of libraries
(loaders, pools of `multiprocessing`, backends) are left alone, which a note says.

Nothing of this is installed unless accesses are asked for.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import sysconfig
import threading
import time
from types import FrameType
from typing import Callable, Optional, Union
from weakref import WeakKeyDictionary

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.agent.sequences import pythons
from breakrank_agent.agent.thread_scheduler import Member, Turns
from breakrank_agent.agent.turn_watch import look_out
from breakrank_agent.hooks.python.thread_locks import replace_locks

WAITS_FOR = ""
IN_CHILDREN = True

#: Modules between `Thread.start` and whoever wants the thread.
_BETWEEN = ("threading", "concurrent.futures", "breakrank_agent")

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def install(agent: Agent) -> None:
    """Watch threads and their locks, if accesses are recorded."""
    if not agent.watches:
        return
    threads = Threads(agent)
    replace_locks(threads)
    threads.watch_threads()
    _watch_sleep(agent.turns)
    if agent.turns is not None and agent.plan.command:
        agent.turns.note_aside = threads.stands_aside
        look_out(agent.turns)


class _End:
    """The end of a thread, for whoever joins it."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def over(self) -> bool:
        """Return whether it has ended."""
        return self._member.ended

    def outside(self) -> bool:
        """Return False: no thread but itself can end it."""
        return False

    def block(self, limit: Optional[float]) -> None:
        """Never asked for."""

    def words(self) -> str:
        """Say whose end it is."""
        return f"the end of {self._member.name}"


class _Time:
    """A time that is to pass: others move first."""

    def over(self) -> bool:
        """Return False: only its limit ends it."""
        return False

    def outside(self) -> bool:
        """Return False: no thread can end it."""
        return False

    def block(self, limit: Optional[float]) -> None:
        """Never asked for."""

    def words(self) -> str:
        """Say what is waited for."""
        return "time to pass"


class Threads:
    """The user's threads of this rank."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.turns = agent.turns
        self._inside = threading.local()
        self._names: dict[int, str] = {}
        self._members: WeakKeyDictionary[threading.Thread, tuple[str, Optional[Member]]] = WeakKeyDictionary()
        self._said: set[str] = set()
        agent.on.child_begin.append(self._begin_anew)
        agent.on.step_end.append(self._look_for_natives)
        agent.on.native_thread.append(self.say_natives)
        self._start = threading.Thread.start
        self._join = threading.Thread.join
        self._is_alive = threading.Thread.is_alive

    def _begin_anew(self) -> None:
        """Know of no thread but the one that a child was forked with, and of no schedule."""
        self.turns = None
        self._names.clear()
        self._said.clear()

    def watch_threads(self) -> None:
        """Wrap what starts a thread and what waits for its end: by hand where others are to move meanwhile."""
        hook = self

        @functools.wraps(self._start)
        def start(thread: threading.Thread) -> None:
            hook.start(thread)

        @functools.wraps(self._join)
        def join(thread: threading.Thread, timeout: Optional[float] = None) -> None:
            hook.join(thread, timeout)

        for name, wrapped in (("start", start), ("join", join)):
            setattr(threading.Thread, name, wrapped)

        def asked(thread: threading.Thread, alive: bool) -> None:
            if not alive:
                hook.joined(thread)

        interpose(threading.Thread, "is_alive", receiver, asked)

    def sync(self, do: str, key: Union[str, Callable[[], str]]) -> None:
        """Record a sync of one of the user's threads; a lock taken while one is being recorded is none.

        A lock gets its name from the first of them, so that its number tells of no thread that is not watched, nor of
        locks that were taken while a cold rank imported what a warm one has. Before there are threads, all that the
        process does is in order.
        """
        if not self.agent.accesses.threaded or getattr(self._inside, "busy", False) or not self._is_users():
            return
        self._inside.busy = True
        try:
            self.agent.accesses.sync(do, key if isinstance(key, str) else key())
        finally:
            self._inside.busy = False

    def _is_users(self) -> bool:
        ident = threading.get_ident()
        return not self.agent.busy and (ident in self._names or ident == self.agent.main)

    def others(self) -> bool:
        """Return whether there are threads that are not under the schedule, and may do what one of those waits for.

        The main thread is one when the main module is over. Of a script, any that Python has not started may be.
        """
        within = (not self.agent.over) + sum(map(self._is_alive, list(self._members)))
        if threading.active_count() > within:
            return True
        # One of them is ours, and looks out.
        return bool(self.agent.plan.command) and len(os.listdir("/proc/self/task")) > within + 1

    def _look_for_natives(self) -> None:
        """Say so if there is a thread that `threading` has not started, and that is not ours."""
        for ident, frame in sys._current_frames().items():
            while frame.f_back is not None:
                frame = frame.f_back
            if pythons(ident) is None and not frame.f_code.co_filename.startswith(_OURS + os.sep):
                self.say_natives()

    def say_natives(self) -> None:
        """Say once that of such a thread nothing is seen."""
        self._leave_alone("something else than threading")

    def start(self, thread: threading.Thread) -> None:
        """Start a thread: one of the user's takes part from its first move on."""
        starter = starter_of(sys._getframe(2), _BETWEEN)
        turns, agent = self.turns, self.agent
        me = turns.me() if turns is not None else None
        if starter or agent.busy or not agent.sees or (turns is not None and me is None):
            self._leave_alone(starter)
            self._start(thread)
            return
        agent.accesses.threaded = True
        member = turns.expect(thread.daemon) if turns is not None else None
        name = member.name if member is not None else f"thread-{agent.accesses.number('thread')}"
        self._members[thread] = (name, member)
        run = thread.run
        thread.run = functools.partial(self._run, thread, name, member, run)  # type: ignore[method-assign]
        self.sync("release", f"start of {name}")
        try:
            with turns.passing(me) if turns is not None and me is not None else contextlib.nullcontext():
                self._start(thread)
        except BaseException:
            if turns is not None and member is not None:
                turns.forget(member)
            raise
        if turns is not None:
            turns.point()

    def stands_aside(self, member: Member) -> None:
        """Say once that a thread waits for something that cannot be scheduled."""
        if "aside" not in self._said:
            self._said.add("aside")
            what = "waits for something that cannot be scheduled; from there on, no replay need be the same"
            self.agent.record_of(member.name, "note", text=f"{member.name} {what}", limits=True)

    def _leave_alone(self, starter: str) -> None:
        if starter and starter not in self._said and self.agent.sees and not self.agent.busy:
            self._said.add(starter)
            what = "neither scheduled nor watched" if self.turns is not None else "not watched"
            self.agent.record("note", text=f"threads that {starter} starts are {what}", limits=True)

    def _run(self, thread: threading.Thread, name: str, member: Optional[Member], run: Callable[[], None]) -> None:
        """Run a thread's own part."""
        del thread.__dict__["run"]
        turns, agent = self.turns, self.agent
        self._names[threading.get_ident()] = name
        agent.sequences.name(name)
        if turns is not None and member is not None:
            turns.begin(member)
        try:
            self.sync("acquire", f"start of {name}")
            with contextlib.ExitStack() as entered:
                for context in agent.on.user_thread:
                    entered.enter_context(context())
                run()
        finally:
            self.sync("release", f"end of {name}")
            del self._names[threading.get_ident()]
            if turns is not None and member is not None:
                turns.end(member)

    def join(self, thread: threading.Thread, timeout: Optional[float]) -> None:
        """Wait for a thread's end; others move meanwhile."""
        _, member = self._members.get(thread, ("", None))
        me = self.turns.me() if self.turns is not None else None
        if self.turns is None or me is None or member is None or member is me:
            self._join(thread, timeout)
        else:
            self.turns.point()
            if self.turns.wait(_End(member), timeout) or timeout is None:
                with self.turns.passing(me):
                    self._join(thread)
        if not self._is_alive(thread):
            self.joined(thread)

    def joined(self, thread: threading.Thread) -> None:
        """Record that this thread comes after another's end."""
        name, _ = self._members.get(thread, ("", None))
        if name and thread is not threading.current_thread():
            self.sync("acquire", f"end of {name}")


def starter_of(frame: Optional[FrameType], between: tuple[str, ...]) -> str:
    """Return the library whose code starts a thread or process, or the empty string if it is the user's own.

    Modules whose names begin as one of `between` stand between the starter and what is started.
    """
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(between):
            return module.split(".")[0] if _is_librarys(frame.f_code.co_filename) else ""
        frame = frame.f_back
    return "Python"


@functools.cache
def _is_librarys(file: str) -> bool:
    """Return whether a file of code is Python's, or of an installed package, which may be another environment's."""
    paths = sysconfig.get_paths()
    return file.startswith((paths["stdlib"], paths["purelib"], paths["platlib"], "<frozen")) or any(
        f"{os.sep}{folder}{os.sep}" in file for folder in ("site-packages", "dist-packages")
    )


def _watch_sleep(turns: Optional[Turns]) -> None:
    """Under a controlled schedule let all others move first; only if none can, sleep for real, and then for less."""
    if turns is None:
        return
    sleep: Callable[[float], None] = time.sleep

    @functools.wraps(sleep)
    def sleeping(seconds: float) -> None:
        if turns.me() is None or turns.alone or seconds <= 0:
            sleep(seconds)
            if turns.me() is not None:
                turns.point()
        else:
            began = time.monotonic()
            turns.wait(_Time(), seconds)
            sleep(max(0.0, seconds - (time.monotonic() - began)))

    setattr(time, "sleep", sleeping)  # noqa: B010 - mypy knows no other way
