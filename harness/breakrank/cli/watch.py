"""Watches a job that nobody strikes: it runs as it is, and what goes wrong is said, with who, where and why."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from breakrank.cli import stderr_lines
from breakrank.conductor.conductor import Progress
from breakrank.errors import BreakrankError
from breakrank.history.reader import History, read_history
from breakrank.host.watched_session import Guest
from breakrank.judge.blame import blame
from breakrank.live.why import why
from breakrank.oracles import Abstain, Terms, all_oracles
from breakrank.oracles.progress import judge as judge_waits
from breakrank.plan.script import check_script, command_line, framework_of, title
from breakrank.report.groups import draw_answer
from breakrank.report.terminal import live_line
from breakrank.runs.bench import Bench
from breakrank.runs.result import Result
from breakrank.verdict import Outcome
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import HungEvent
from breakrank_agent.protocol.evidence import evidence_for

#: Asked of a job that is compared with nothing.
ORACLES = ("progress", "finite", "replicas")
#: Asked of it now and then, while it runs.
WHILE_IT_RUNS = ("finite", "replicas", "leak")
#: Signals that are handed on to the job, and others that would end us, and are passed over.
_HANDED_ON = (signal.SIGINT, signal.SIGTERM)
_PASSED_OVER = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
#: The exit code of a job that we ended, as of timeout(1).
_ENDED = 124
_REWRITE_S, _QUIET_S = 0.5, 60.0
#: Seconds between two checks of a job that runs on, and the most of the time that checks may take.
_LOOK_S, _LOOK_SHARE = 20.0, 0.01


@dataclass(frozen=True)
class Wishes:
    """The failures to watch for: a stall after `stall_s`, ended or not; drift and leaks, at a cost per step."""

    stall_s: float = 60.0
    end_stalled: bool = False
    drift: bool = False
    leaks: bool = False


def watch(command: Sequence[str], runs: Path, wishes: Wishes) -> int:
    """Run the command, say on stderr what goes wrong, and return its exit code.

    We are a guest: once the command runs, nothing of ours ends or changes it. If its ranks cannot be recorded, or no
    longer, one line says so, and it goes on. If we are killed, it goes on as well, and so does what it leaves running;
    ranks that outlive the command are watched to their end.

    SIGINT and SIGTERM are meant for the job, whoever sends them to us: its process group gets each of them once, and it
    decides what comes of them. All other signals that would end us are passed over. Raises `BreakrankError` if there is
    no such command.
    """
    stderr_lines.keep_standard_descriptors()
    where = Path.cwd()
    check_script(command, where)
    with contextlib.closing(Guest(_ignored())) as guest, _Watcher(wishes, guest) as watcher:
        try:
            said = [*_summary(_record(_plan(command, where, wishes), runs, guest, watcher))]
        except Exception as error:
            watcher.clear()
            why = " ".join(f"{error}".split()) or type(error).__name__
            if guest.refused:
                raise
            stderr_lines.say([f"{'recording stops' if guest.started else 'the job is not recorded'}: {why[:300]}"])
            return _exit_code(_go_on(command, where, guest))
        watcher.clear()
        stderr_lines.say(said)
        return _ENDED if guest.may_end else _exit_code(guest.wait())


def _plan(command: Sequence[str], where: Path, wishes: Wishes) -> Plan:
    oracles = (*ORACLES, "leak") if wishes.leaks else ORACLES
    return Plan(
        scenario="watch",
        case=title(command),
        program="",
        framework=framework_of(command, where),
        ranks=0,
        steps=0,
        deadline_s=wishes.stall_s,
        pin=False,
        digests="every" if wishes.drift else "none",
        runner="join",
        oracles=oracles,
        evidence=evidence_for(oracles),
        command=tuple(command),
    )


def _record(plan: Plan, runs: Path, guest: Guest, watcher: _Watcher) -> Result:
    """Run the command with its ranks recorded, and judge what came of it."""
    with Bench(runs, cold=True, session=guest) as bench:
        return bench.watch(plan, Path.cwd(), watcher.show, watcher.stalled, watcher.started)


def _go_on(command: Sequence[str], where: Path, guest: Guest) -> int:
    """Wait for the command, which nobody records; start it, if it was not."""
    if not guest.started:
        guest.spawn(command_line(command), dict(os.environ), where)
    return guest.wait()


def _exit_code(status: int) -> int:
    """Return how the command ended, as a shell says it of a program that died of a signal."""
    return status if status >= 0 else 128 - status


def _ignored() -> list[int]:
    """Return the signals that whoever started us has had us ignore, and that Python has not."""
    return [number for number in (*_HANDED_ON, *_PASSED_OVER) if signal.getsignal(number) is signal.SIG_IGN]


class _Watcher:
    """Shows progress, says when the job stands still, and hands on what the terminal would have sent to the job."""

    def __init__(self, wishes: Wishes, guest: Guest | None = None) -> None:
        self._wishes = wishes
        self._guest = guest
        self._pid = 0
        self._folder = Path()
        self._looked, self._every = time.monotonic(), _LOOK_S
        self._said: set[tuple[str, str, tuple[int, ...]]] = set()
        self._shown = time.monotonic()
        self._line = self._blind = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Watcher:
        for number in _HANDED_ON:
            self._before[number] = signal.signal(number, self._hand_on)
        for number in _PASSED_OVER:
            self._before[number] = signal.signal(number, _pass_over)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def started(self, pid: int, folder: Path) -> None:
        """Note the command's pid, which leads a process group of its own, and the folder of its records."""
        self._pid, self._folder = pid, folder

    def _hand_on(self, number: int, frame: FrameType | None) -> None:
        if self._guest is not None:
            self._guest.hand_on(number)

    def show(self, progress: Progress) -> None:
        """Rewrite the line on a terminal, elsewhere write one a minute; and look whether the job has gone wrong."""
        tty = stderr_lines.is_terminal()
        now = time.monotonic()
        if now - self._looked > self._every and not self._blind:
            self._try(self._look)
            self._looked = time.monotonic()
            self._every = max(_LOOK_S, (self._looked - now) / _LOOK_SHARE)
        if not (progress.ranks or progress.waiting) or now - self._shown < (_REWRITE_S if tty else _QUIET_S):
            return
        self._shown = now
        width = shutil.get_terminal_size().columns - 1 if tty else 200
        slowest = max(progress.spent, key=lambda point: progress.spent[point], default="")
        share = progress.spent[slowest] / (sum(progress.spent.values()) or 1.0) if slowest else 0.0
        phase = f" │ {share:.0%} of the time after {slowest}" if slowest else ""
        where = progress.attempt, progress.ranks, width - len(phase), progress.waiting
        line = live_line("run", *where) + phase
        if not tty:
            stderr_lines.say([line])
            return
        self._line = True
        stderr_lines.rewrite(line)

    def _try(self, look: Callable[[], None]) -> None:
        """Look at the job; if that fails, look no more, though the job is still recorded."""
        try:
            look()
        except Exception as error:
            self._blind = True
            self.clear()
            stderr_lines.say([f"the job is not looked at any more: {' '.join(f'{error}'.split())[:300]}"])

    def _look(self) -> None:
        """Say of each thing that has gone wrong, and of which the ranks know nothing, once who, where and what."""
        history = _as_if_over(read_history(self._folder))
        steps = max((lived.last_step for lived in history.last), default=0)
        for name in WHILE_IT_RUNS:
            with contextlib.suppress(Abstain):
                for finding in all_oracles()[name](history, None, Terms(0, steps)):
                    what = (finding.oracle, finding.cause, finding.ranks)
                    if what not in self._said:
                        self._said.add(what)
                        self.clear()
                        said = [f"at step {steps}: {finding.sentence()}"]
                        stderr_lines.say([*said, f"blame: {blame(history, [finding]).words()}"])

    def clear(self) -> None:
        """Take the line away."""
        if self._line:
            self._line = False
            stderr_lines.rewrite("")

    def stalled(self, folder: Path, event: HungEvent) -> bool:
        """Say who waits where for whom, with stacks; return whether the job is to be ended."""
        self.clear()
        self._try(partial(self._explain, folder, event))
        if self._wishes.end_stalled and self._guest is not None:
            self._guest.may_end = True
        return self._wishes.end_stalled

    def _explain(self, folder: Path, event: HungEvent) -> None:
        history = read_history(folder)
        history = replace(history, conductor=(*history.conductor, event))
        findings = [f for f in judge_waits(history, None, Terms(0, 0)) if f.evidence.get("seconds") is not None]
        sentence = findings[-1].sentence() if findings else "no rank moves"
        stderr_lines.say([f"stalled: {sentence}", f"blame: {blame(history, findings[-1:]).words()}", *self._stacks()])

    def _stacks(self) -> Iterator[str]:
        try:
            yield from draw_answer(why([self._pid])).splitlines()
        except BreakrankError as error:
            yield f"no stacks: {' '.join(str(error).split())}"


def _pass_over(number: int, frame: FrameType | None) -> None:
    """Go on."""


def _as_if_over(history: History) -> History:
    """Return the history of a running job as if its ranks had ended well, after the last step that all have made.

    The one before is taken, as not all of the last may be on record yet.
    """
    ranks = {}
    for attempt in history.attempts:
        over = min(lived.last_step for lived in history.attempt(attempt)) - 1
        for lived in history.attempt(attempt):
            status = 0 if lived.status is None else lived.status
            events = tuple(event for event in lived.events if event["step"] <= over)
            ranks[attempt, lived.rank] = replace(lived, status=status, events=events)
    return replace(history, ranks=ranks)


def _summary(result: Result) -> Iterator[str]:
    """Say what came of the job: nothing to remark, or who, where, why, and where the records are."""
    verdict = result.verdict
    if verdict.outcome is Outcome.SURVIVED:
        yield f"nothing to remark; records in {result.folder}"
        return
    yield f"{verdict.outcome}: {verdict.sentence()}"
    if verdict.outcome is not Outcome.VOID:
        yield f"blame: {verdict.blame.words()}"
    yield f"records in {result.folder}; python -m breakrank show {result.folder}"
