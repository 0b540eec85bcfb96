"""Checks a script that nobody has struck: three undisturbed runs, every oracle, and a sheet of what is wrong."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from breakrank.cli import stderr_lines
from breakrank.conductor.conductor import Progress
from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import patterns
from breakrank.plan.script import check_script, check_step, framework_of, is_script
from breakrank.report.health import Health, health
from breakrank.report.terminal import live_line
from breakrank.runs.bench import Bench
from breakrank.runs.checkup import Order, check_up, light_plan
from breakrank_agent.protocol.frameworks import all_frameworks
from breakrank_agent.protocol.trigger import PlanError

#: Seconds between two rewrites of the line on a terminal, and between two lines elsewhere.
_REWRITE_S, _QUIET_S = 0.1, 10.0


@dataclass(frozen=True)
class Wishes:
    """The settings of a check-up, as they were typed; empty ones are left to it."""

    ranks: str = ""
    steps: str = ""
    step: str = ""
    framework: str = ""
    reference: str = ""
    resume: str | None = None
    budget: str = ""
    apart: str = ""
    deadline: str = ""


def check(command: Sequence[str], runs: Path, wishes: Wishes, as_json: bool) -> int:
    """Check the command, print the sheet, and return its exit code. Raises `BreakrankError` if it cannot be run."""
    order = _order(command, Path.cwd(), wishes)
    live = _Live()
    with Bench(runs) as bench:
        sheet = health(check_up(bench, order, live.tell, live))
    live.clear()
    if as_json:
        print(json.dumps(sheet.to_json(), indent=1))
    else:
        _print(sheet, command, wishes)
    return sheet.status


def _order(command: Sequence[str], where: Path, wishes: Wishes) -> Order:
    """Return what is to be checked. Raises `BreakrankError` for a value that cannot be."""
    if not command:
        raise BreakrankError("check needs a script or a job, as in breakrank check train.py")
    check_script(command, where)
    if wishes.step:
        try:
            check_step(wishes.step, command, where)
        except BreakrankError as error:
            raise BreakrankError(f"--step is {wishes.step!r}: {error}") from None
    if wishes.framework and wishes.framework not in all_frameworks():
        raise BreakrankError(f"--framework is {wishes.framework!r}; use {' or '.join(all_frameworks())}")
    choices = Choices(
        ranks=_whole("--ranks", wishes.ranks),
        steps=_whole("--steps", wishes.steps),
        step=wishes.step,
        framework=wishes.framework or framework_of(command, where),
        deadline_s=_whole("--deadline", wishes.deadline),
        apart=patterns(wishes.apart),
    )
    budget_s = float(_whole("--budget", wishes.budget) or math.inf)
    reference = _command("--reference", wishes.reference, where)
    resume = None if wishes.resume is None else _command("--resume", wishes.resume, where)
    if resume is not None and (wishes.steps or not is_script(command)):
        why = "compares how the script ends; leave out --steps" if wishes.steps else "needs a script without a launcher"
        raise BreakrankError(f"--resume {why}")
    try:
        return Order(light_plan(command, choices), where, reference, resume, budget_s)
    except PlanError as error:
        raise BreakrankError(str(error)) from None


def _command(name: str, text: str, where: Path) -> tuple[str, ...]:
    """Return the words of a script's command, none where none was given. Raises `BreakrankError`."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BreakrankError(f"{name} is {text!r}: {error}") from None
    if words and not is_script(words):
        raise BreakrankError(f"{name} is {text!r}; name a Python script, as in {name}='train.py --epochs 2'")
    if words:
        check_script(words, where)
    return words


def _whole(name: str, text: str) -> int | None:
    """Return a whole number above 0, None where none was given."""
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise BreakrankError(f"{name} is {text!r}; give a whole number from 1")
    return int(text)


def _print(sheet: Health, command: Sequence[str], wishes: Wishes) -> None:
    given = {name: value for name, value in vars(wishes).items() if _given(name, value)}
    said = [f"--{name}={value}" if value else f"--{name}" for name, value in given.items()]
    repeat = shlex.join(["breakrank", "check", *said, *command])
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    encoding = sys.stdout.encoding or "utf-8"
    print(sheet.text(repeat, colour).encode(encoding, "backslashreplace").decode(encoding))


def _given(name: str, value: str | None) -> bool:
    """Return whether a setting was typed: of `--resume` alone the value is empty."""
    return value is not None if name == "resume" else bool(value)


class _Live:
    """Says on stderr what is done, and where the ranks are: one line that is rewritten, or rare lines elsewhere."""

    def __init__(self) -> None:
        self._tty = stderr_lines.is_terminal()
        self._shown = time.monotonic()
        self._line = False

    def tell(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        stderr_lines.say([text])

    def clear(self) -> None:
        """Take the line away that is rewritten."""
        if self._line:
            self._line = False
            stderr_lines.rewrite("")

    def __call__(self, progress: Progress) -> None:
        """Show the progress, if it is time to."""
        now = time.monotonic()
        if now - self._shown < (_REWRITE_S if self._tty else _QUIET_S):
            return
        self._shown = now
        width = os.get_terminal_size(2).columns - 1 if self._tty else 200
        line = live_line(f"{progress.phase} run", progress.attempt, progress.ranks, width)
        if self._tty:
            self._line = True
            stderr_lines.rewrite(line)
        else:
            self.tell(f"{progress.phase} run: {line}")
