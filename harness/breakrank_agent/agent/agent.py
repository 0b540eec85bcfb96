"""The agent inside a rank: it counts logical time, strikes where a strike is due, and records.

Hooks call `Agent.reach` on entering a point and `Agent.payload` for what the point handled. They subscribe to moments
in `Agent.on`, and offer services to each other in `Agent.services`.

There is one agent in a process, or none. A child of a rank is no rank and makes no points. A watched child has an agent
that records its accesses and syncs, in a log of its own; any other child has none.
"""

from __future__ import annotations

import contextlib
import os
import sys
from threading import get_ident
from typing import Any, Callable, Optional

from breakrank_agent.agent import memory_limit
from breakrank_agent.agent.access_log import Accesses, Span
from breakrank_agent.agent.call_sites import Sites
from breakrank_agent.agent.callbacks import Callbacks
from breakrank_agent.agent.channel import Channel
from breakrank_agent.agent.forks import Forks
from breakrank_agent.agent.injector import Injector
from breakrank_agent.agent.model import Model
from breakrank_agent.agent.quiet import Quiet
from breakrank_agent.agent.recorder import Recorder
from breakrank_agent.agent.services import Services
from breakrank_agent.agent.thread_scheduler import Member, Turns
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.log import LAST, LogWriter
from breakrank_agent.protocol.sampling import ASKED, is_digested, is_sampled
from breakrank_agent.protocol.shortened import shortened
from breakrank_agent.protocol.traceback_text import innermost
from breakrank_agent.schedules import policy

_agent: Optional[Agent] = None

#: The beginning of a note about a hook that did not understand what it looked at.
FAILED = "a hook of the agent failed"


class Agent:
    """The agent of one rank in one attempt. It has slots alone: nothing can be left on it that is not named here."""

    __slots__ = (
        *("_lingers", "_state", "accesses", "attempt", "channel", "clock", "complete", "controlled", "count", "folder"),
        *("forks", "injector", "model", "on", "plan", "quiet", "rank", "reach", "record", "record_of", "recorder"),
        *("_asked_of", "_digested", "_digests", "_failed", "_log_says", "_quiet", "_steps_by", "_until", "sequences"),
        *("services", "sites", "turns", "watches"),
    )

    def __init__(self, plan: Plan, rank: int, attempt: int, log: LogWriter, channel: Optional[Channel]) -> None:
        self.plan, self.rank, self.attempt, self.channel = plan, rank, attempt, channel
        self.folder = os.getcwd()
        self.sites = Sites(self.folder)
        self.on, self.services = Callbacks(), Services()
        self.controlled = plan.schedule.mode == "controlled" and channel is not None
        #: True if accesses are recorded: as evidence, or because a schedule chooses between them.
        self.watches = self.controlled or "accesses" in plan.evidence
        # Each step asks for these.
        self._digests, self._until, self._log_says = plan.digests, plan.until, log.words
        #: The step of which it was asked last whether it is digested, and the answer.
        self._asked_of, self._digested = -1, False
        #: The name of the thing that counts the steps of this program; empty until the first step has ended.
        self._steps_by = ""
        self._state: Optional[dict[str, Any]] = None
        self._lingers = False
        self._quiet = Quiet()
        #: The threads that are quiet: hooks on hot paths ask first whether there are any.
        self.quiet = self._quiet.threads
        recorder = self.recorder = Recorder(log, self.on, self.watches)
        self.clock, self.sequences = recorder.clock, recorder.sequences
        # Hooks call these many times in a step: to go through a method of ours would cost a call more each time.
        self.reach, self.complete, self.count = recorder.reach, recorder.complete, recorder.count
        self.record, self.record_of = recorder.record, recorder.record_of
        self.accesses = Accesses(recorder)
        #: The turns of this rank's threads, under a controlled schedule.
        self.turns: Optional[Turns] = None
        if self.controlled and channel is not None:
            chosen = policy(plan.schedule.of_threads(rank), f"{plan.seed}:{attempt}:{rank}")
            self.turns = self.accesses.turns = Turns(chosen, channel, self._note_pick, self._where)
        self.on.child_begin.append(self._begin_as_child)
        self._failed: set[str] = set()
        self.forks = Forks(rank, recorder, self.accesses, self._quiet, self.on)
        self.model = Model(lambda text: recorder.record("note", text=text, limits=True))
        self.injector = Injector(plan, rank, attempt, recorder, channel, self.model, self._quiet)
        if channel is not None:
            # With nobody who reads and no room, the program goes on as if we were not there.
            log.gone, log.forsaken = lambda: channel.gone, recorder.end

    def begin(self, **facts: Any) -> None:
        """Write the first event, and one for every strike that is armed here."""
        self.record("rank", attempt=self.attempt, slot=self.rank, rank=self.rank, pid=os.getpid(), **facts)
        self.injector.begin()

    def _begin_as_child(self) -> None:
        """Go on without the schedule, whose line is the rank's."""
        self.watches, self.controlled = True, False
        self.channel = self.turns = None
        self.accesses.begin_anew()

    @property
    def busy(self) -> bool:
        """True if the agent itself is at work in this thread: hooks then pass everything through."""
        return bool(self.quiet) and get_ident() in self.quiet

    @property
    def over(self) -> bool:
        """True if the last event is on record."""
        return self.recorder.over

    @property
    def here(self) -> bool:
        """True in the rank's own process, False in a child that it forked."""
        return self.recorder.here

    @property
    def sees(self) -> bool:
        """True if reads, writes and syncs of this process go on record."""
        return self.recorder.sees

    @property
    def main(self) -> Optional[int]:
        """The identity of the main thread."""
        return self.recorder.main

    def quietly(self) -> Quiet:
        """Let the agent's own work in this thread pass every hook unseen, for as long as this is entered."""
        return self._quiet

    def close_step(self, by: str) -> None:
        """End the step, if `by` is what counts the steps of this program."""
        if self.recorder.over or not self.recorder.here:
            return
        if by != self._steps_by and not self._is_counted(by):
            return
        self.reach("step")
        done = self.clock.done
        if self._digests != "none":
            self._look_at_model(done)
        for follow in tuple(self.on.step_end):
            try:
                follow()
            except Exception as error:
                self.note_failure(error)
        if (self._until or self._log_says[LAST]) and self._is_last(done):
            self._stop_here(done)

    def _is_last(self, done: int) -> bool:
        """Return whether the plan, or the log, has this step as the last one."""
        return 0 < self._until <= done or 0 < self.recorder.last_step() <= done

    def _look_at_model(self, done: int) -> None:
        """Record what is to be said of the parameters at the end of a step."""
        if self.digests_now():
            self.payload("step", **self.model.summary_at(done))
            if done == 1:
                self._sketch()
        elif done % ASKED == 0:
            self.payload("step", **self.model.not_finite_at(done))

    def guard(self, look: Callable[..., Any], *args: Any) -> Any:
        """Return what a hook makes of something of the program's; None where it fails, which is not for the program."""
        try:
            return look(*args)
        except Exception as error:
            self.note_failure(error)
        return None

    def note_failure(self, error: Exception) -> None:
        """Record once that a hook has failed; a hot path does by hand what `guard` does, and calls this."""
        text = f"{FAILED}: {type(error).__name__}: {error}"
        if text not in self._failed:
            self._failed.add(text)
            self.record("note", text=text, limits=True)

    def digests_now(self) -> bool:
        """Return whether the step under way is one whose parameters and batches are digested."""
        if self._digests == "none":
            return False
        step = self.clock.step
        if step != self._asked_of:
            # Asked several times in each step.
            self._asked_of, self._digested = step, is_digested(step, self._digests, self.plan.closely)
        return self._digested

    def samples_now(self) -> bool:
        """Return whether the step that has just ended is one of those at whose end the run looks closely."""
        return is_sampled(self.clock.done, self.plan.digests, self.plan.closely)

    def _is_counted(self, by: str) -> bool:
        """Take what ends a step here for the first time for what counts the steps, or not; return whether it did so."""
        if (self.plan.step and by != self.plan.step) or (self._steps_by and by != "the program"):
            return False
        # A program that says its steps says the first one after its backward pass, which had counted until then.
        first = not self._steps_by
        self._steps_by = by
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
        """Record the values that a point handled."""
        if values and not self.over and self.here:
            self.record("payload", of=of, **values)

    def raised(self, point: str, error: BaseException, **values: Any) -> None:
        """Record that an exception passes through a point."""
        if not self.over and self.here:
            self.record("raised", point=point, type=type(error).__name__, message=str(error)[:500], **values)

    def tell(self, name: str, values: dict[str, Any]) -> None:
        """Record values that the program names."""
        if not self.over and self.here:
            self.record("told", name=name, values=values)

    def set_state(self, values: dict[str, Any]) -> None:
        """Keep the values that the program names as its result."""
        self._state = values

    def _stop_here(self, step: int) -> None:
        """End well after the last step that was asked for, at once, when no rank needs this one; until then go on."""
        if self.channel is not None and self.channel.ask({"done": step}).get("on"):
            return
        self.finish("steps", 0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)

    def leave_main(self) -> None:
        """Have another thread be the rank from here on: that one calls `take_main`, and is to be started next."""
        for leave in self.on.main_leave:
            leave()
        self.recorder.leave_main()

    def take_main(self) -> None:
        """Go on as the rank, in the place of the thread that has been it."""
        self.recorder.take_main()
        if self.turns is not None:
            self.turns.take_main()
        for take in self.on.main_take:
            take()

    def finish(self, how: str, code: Optional[int], error: Optional[BaseException] = None, stays: bool = False) -> None:
        """Write the report, if there is one, and the last point: the main module is over.

        The process `stays` if it does not end with the rank.
        """
        if self.over or not self.here:
            return
        if error is not None:
            self.record("report", code=code, **_told(error))
        elif code:
            self.record("report", type="SystemExit", message=f"left with exit code {code}", code=code, frames=[])
        self.reach("end")
        self.injector.end()
        if self.services.works is not None:
            self.services.works.forget()
        lives = {"stays": True} if stays else {}
        with memory_limit.lifted():
            self._sketch()
            self.record("end", how=how, code=code, state=self._state, **lives, **self.model.left_at(self.clock.done))
        self.recorder.end()
        if self.turns is not None:
            self.turns.leave()

    def _sketch(self) -> None:
        """Record the sketches of the parameters, if there are any."""
        sketch = self.model.sketch()
        if sketch:
            self.record("sketch", **sketch)

    def linger(self) -> None:
        """Have `take_leave` wait: peers may still be taking what this rank has sent them when it is through."""
        self._lingers = True

    def take_leave(self) -> None:
        """Wait until no peer is in a collective that is over here, where the end of this process would break it."""
        if self._lingers and self.here and self.channel is not None:
            self.channel.ask({"leaves": True})

    def relative(self, path: Any) -> str:
        """Return a path as it reads from the working folder."""
        text = os.fsdecode(path)
        absolute = os.path.abspath(text)
        if absolute.startswith(self.folder + os.sep):
            return absolute[len(self.folder) + 1 :]
        return absolute


def _told(error: BaseException) -> dict[str, Any]:
    """Return what an exception says: one that was raised in another process says what that one raised."""
    # Futures and pools leave the traceback from there in the cause; others put it into the message.
    remote = error.__cause__ if type(error.__cause__).__name__ in ("_RemoteTraceback", "RemoteTraceback") else error
    inner = innermost(str(remote))
    kind = type(error).__name__
    if inner is None:
        return {"type": kind, "message": shortened(str(error)), "frames": _frames(error)}
    return {"type": inner.type, "message": shortened(inner.message), "frames": inner.frames[-10:], "through": kind}


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


def make_current(agent: Agent) -> None:
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
    """Name values, such as `state(updates=10)`, by which the final result is compared in place of the parameters."""
    if _agent is not None:
        _agent.set_state(values)
