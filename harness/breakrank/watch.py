"""Watches a job that nobody strikes: it runs as it is, and what goes wrong is said, with who, where and why."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from breakrank.blame import blame
from breakrank.conductor import Progress
from breakrank.errors import BreakrankError
from breakrank.history import History, read_history
from breakrank.oracles import Abstain, Terms, all_oracles
from breakrank.oracles.progress import judge as judge_waits
from breakrank.report.groups import draw_answer
from breakrank.report.terminal import live_line
from breakrank.run import Bench, Result
from breakrank.script import check_script, framework_of, title
from breakrank.verdict import Outcome
from breakrank.why import why
from breakrank_agent.history import Event
from breakrank_agent.plan import Plan

#: Asked of a job that is compared with nothing.
ORACLES = ("progress", "finite", "replicas")
#: Asked of it now and then, while it runs.
WHILE_IT_RUNS = ("finite", "replicas", "leak")
#: The exit code of a job that we ended, as of timeout(1).
_ENDED = 124
_REWRITE_S, _QUIET_S = 0.5, 60.0
#: How often it is asked whether the job has gone wrong and runs on; at most this share of the time goes into it.
_LOOK_S, _LOOK_SHARE = 20.0, 0.01


@dataclass(frozen=True)
class Wishes:
    """What is watched: a stall after `stall_s`, which is ended or not; drift and leaks cost time at each step."""

    stall_s: float = 60.0
    end_stalled: bool = False
    drift: bool = False
    leaks: bool = False


def watch(command: Sequence[str], runs: Path, wishes: Wishes) -> int:
    """Run the command, say on stderr what goes wrong, and return its exit code. Raises `BreakrankError`."""
    where = Path.cwd()
    check_script(command, where)
    plan = Plan(
        scenario="watch",
        case=title(command),
        program="",
        framework=framework_of(command, where),
        ranks=0,
        steps=0,
        deadline_s=wishes.stall_s,
        pin=False,
        payloads=wishes.drift,
        runner="join",
        oracles=(*ORACLES, "leak") if wishes.leaks else ORACLES,
        command=tuple(command),
    )
    with Bench(runs, cold=True) as bench, _Watcher(wishes) as watcher:
        result, status = bench.watch(plan, where, watcher.show, watcher.stalled, watcher.started)
        watcher.clear()
    _say(_summary(result))
    if status is None:
        return _ENDED
    # As a shell says it of a program that died of a signal.
    return status if status >= 0 else 128 - status


class _Watcher:
    """Shows progress, says when the job stands still, and hands on what the terminal would have sent to the job."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._pid = 0
        self._folder = Path()
        self._looked, self._every = time.monotonic(), _LOOK_S
        self._said: set[tuple[str, str, tuple[int, ...]]] = set()
        self._shown = time.monotonic()
        self._line = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Watcher:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._hand_on)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def started(self, pid: int, folder: Path) -> None:
        """The command runs, as the leader of a process group of its own; its records are in the folder."""
        self._pid, self._folder = pid, folder

    def _hand_on(self, number: int, frame: FrameType | None) -> None:
        if not self._pid:
            raise KeyboardInterrupt
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, number)

    def show(self, progress: Progress) -> None:
        """Rewrite the line on a terminal, elsewhere write one a minute; and look whether the job has gone wrong."""
        tty = sys.stderr.isatty()
        now = time.monotonic()
        if now - self._looked > self._every:
            self._look()
            self._looked = time.monotonic()
            self._every = max(_LOOK_S, (self._looked - now) / _LOOK_SHARE)
        if not progress.ranks or now - self._shown < (_REWRITE_S if tty else _QUIET_S):
            return
        self._shown = now
        width = shutil.get_terminal_size().columns - 1 if tty else 200
        slowest = max(progress.spent, key=lambda point: progress.spent[point], default="")
        share = progress.spent[slowest] / (sum(progress.spent.values()) or 1.0) if slowest else 0.0
        phase = f" │ {share:.0%} of the time after {slowest}" if slowest else ""
        line = live_line("run", progress.attempt, progress.ranks, width - len(phase)) + phase
        if not tty:
            _say(line)
            return
        self._line = True
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

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
                        _say(f"at step {steps}: {finding.sentence()}", f"blame: {blame(history, [finding]).words()}")

    def clear(self) -> None:
        """Take the line away."""
        if self._line:
            self._line = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def stalled(self, folder: Path, event: Event) -> bool:
        """Say who waits where for whom, with stacks; return whether the job is to be ended."""
        self.clear()
        history = read_history(folder)
        history = replace(history, conductor=(*history.conductor, event))
        findings = [f for f in judge_waits(history, None, Terms(0, 0)) if f.evidence.get("seconds") is not None]
        sentence = findings[-1].sentence() if findings else "no rank moves"
        _say(f"stalled: {sentence}", f"blame: {blame(history, findings[-1:]).words()}", *self._stacks())
        return self._wishes.end_stalled

    def _stacks(self) -> Iterator[str]:
        try:
            yield from draw_answer(why([self._pid])).splitlines()
        except BreakrankError as error:
            yield f"no stacks: {' '.join(str(error).split())}"


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


def _say(*lines: Any) -> None:
    for line in lines:
        for text in [line] if isinstance(line, str) else line:
            sys.stderr.write(f"breakrank: {text}\n")
    sys.stderr.flush()
