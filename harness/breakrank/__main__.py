"""`python -m breakrank`: what can be asked without pytest."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakrank import __version__
from breakrank.errors import BreakrankError
from breakrank.files.bounded import plain
from breakrank.host.user_limits import check_proc
from breakrank_agent.protocol.log import HistoryError
from breakrank_agent.protocol.trigger import PlanError

if TYPE_CHECKING:
    from breakrank.runs.saved_run import SavedRun

#: pytest's exit code for a usage error, so that both ways in answer alike.
_USAGE = 4
#: Commands that read files, and watch no process.
_OF_FILES = ("show", "judge", "list")


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one command; return the exit code: 0, 1 if a judgement disagrees with the saved one, 4 for bad usage."""
    options = _parser().parse_args(_spelled_out(sys.argv[1:] if arguments is None else arguments))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The name of a folder may be no UTF-8: it is written as well as it can be.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if options.command not in _OF_FILES:
            check_proc()
        if options.command == "show":
            return show(_run_of(options))
        if options.command == "judge":
            return judge_again(_run_of(options))
        if options.command == "why":
            return explain_running(options.pids)
        if options.command == "watch":
            return watch_job(options)
        if options.command == "check":
            return check_script(options)
        if options.command == "sweep":
            return sweep(options.dry_run, options.session)
        if options.command == "image":
            return validate_image(options)
        return _list() if options.command == "list" else _doctor()
    except (BreakrankError, PlanError, HistoryError) as error:
        _note(" ".join(str(error).split()))
        return _USAGE
    except (KeyboardInterrupt, BrokenPipeError):
        return 130


def _spelled_out(arguments: Sequence[str]) -> list[str]:
    """Return a command line with `--resume` of a check as an option with an empty value, as the script follows it."""
    words = list(arguments)
    if words[:1] == ["check"] and "--resume" in words:
        place = words.index("--resume")
        # Behind the first word that is no option, and no value of one, all belongs to the script.
        before = itertools.pairwise(words[:place])
        if all(word.startswith("-") or (option.startswith("-") and "=" not in option) for option, word in before):
            words[place] = "--resume="
    return words


class _Parser(argparse.ArgumentParser):
    """A parser with pytest's exit code for bad usage."""

    def exit(self, status: int = 0, message: str | None = None) -> None:  # type: ignore[override]
        """Leave, with 4 instead of argparse's 2."""
        super().exit(_USAGE if status == 2 else status, message)


class _Version(argparse.Action):
    """Says the versions, and leaves. They are looked up when they are asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print them."""
        print(_version())
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    name = "breakrank" if Path(sys.argv[0]).name == "breakrank" else "python -m breakrank"
    parser = _Parser(prog=name, description="Distributed training, broken on purpose.")
    parser.add_argument("--version", action=_Version, nargs=0, help="say the versions of this and of what it runs on")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (("show", "explain a saved run again"), ("judge", "judge a saved run again")):
        command = commands.add_parser(name, help=text)
        words = "a run directory, or its name in the folder of the runs; left out, the latest run that went wrong"
        command.add_argument("run", nargs="?", default="", metavar="RUN", help=words)
        command.add_argument("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder of the runs")
    command = commands.add_parser("why", help="say where the ranks of a running job are, and which is the odd one")
    command.add_argument("pids", type=int, nargs="+", metavar="PID", help="a launcher, or ranks of one job")
    _add_check(commands)
    _add_watch(commands)
    _add_image(commands)
    command = commands.add_parser("sweep", help="remove what sessions left behind whose pytest is dead")
    command.add_argument("--dry-run", action="store_true", help="only show it")
    command.add_argument("--session", default="", metavar="ID", help="what carries this id, alive or not")
    commands.add_parser("list", help="list the scenarios and their cases")
    commands.add_parser("doctor", help="say what this machine has and lacks")
    return parser


def _version() -> str:
    """Return the version of this installation, with those of Python and of the frameworks that are there."""
    from importlib.metadata import PackageNotFoundError, version

    found = [f"Python {platform.python_version()}"]
    for name in ("torch", "tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return f"breakrank {__version__} ({', '.join(found)})"


def _run_of(options: argparse.Namespace) -> Path:
    """Return the run directory that a person means. Raises `BreakrankError` where there is none."""
    from breakrank.runs.lookup import find_run

    return find_run(options.run, options.runs)


def _add_check(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = commands.add_parser("check", help="run a script three times undisturbed, and say what is wrong with it")
    command.add_argument("--ranks", default="", metavar="N", help="number of ranks (2), unless a launcher starts them")
    command.add_argument("--steps", default="", metavar="N", help="end each run after N steps")
    command.add_argument("--step", default="", metavar="MODULE:FUNCTION", help="the function whose return ends a step")
    command.add_argument("--framework", default="", metavar="NAME", help="torch or tensorflow, if it imports both")
    command.add_argument("--reference", default="", metavar="CMD", help="the same training as one rank")
    command.add_argument(
        "--resume", metavar="CMD", help="kill all ranks in the middle, and go on by CMD (--resume= by the same command)"
    )
    command.add_argument(
        "--apart",
        default="",
        metavar="NAMES",
        help="parameters that ranks mean to have each for itself, as in 'experts.*,head.*'",
    )
    command.add_argument("--budget", default="", metavar="S", help="seconds of the whole: runs end early, after a step")
    command.add_argument("--deadline", default="", metavar="S", help="seconds without a move that are a hang (300)")
    command.add_argument("--json", action="store_true", help="print one JSON object in place of the sheet")
    command.add_argument("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder for the records")
    command.add_argument("job", nargs=argparse.REMAINDER, metavar="CMD", help="a script, or a job as torchrun train.py")


def _add_watch(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = commands.add_parser("watch", help="run a job as it is, and say who is to blame when it goes wrong")
    command.add_argument("--stall", type=float, default=60.0, metavar="S", help="seconds without a new point (60)")
    command.add_argument("--end-stalled", action="store_true", help="end a job that stands still (exit code 124)")
    command.add_argument("--drift", action="store_true", help="compare the ranks' parameters at each step")
    command.add_argument("--leaks", action="store_true", help="count what stays alive at each step")
    command.add_argument("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder for the records")
    command.add_argument("job", nargs=argparse.REMAINDER, metavar="CMD", help="the job, as in torchrun train.py")


def _add_image(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = commands.add_parser("image", help="run the catalogue on two images, and say what got better or worse")
    command.add_argument("new", metavar="NEW", help="the image to validate")
    command.add_argument("--against", required=True, metavar="OLD", help="the last good image")
    command.add_argument("--scenario", action="append", metavar="NAME", help="only these (default: all); repeatable")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all chance (0)")
    command.add_argument("--runs", type=Path, default=Path(".breakrank"), metavar="DIR", help="folder for the records")


def validate_image(options: argparse.Namespace) -> int:
    """Run the catalogue on both images; return 0, 1 if something got worse, 2 if too much was not tested."""
    from breakrank.cli.images import validate

    return validate(options.new, options.against, options.scenario or ["all"], options.seed, options.runs)


def sweep(dry_run: bool, session: str) -> int:
    """Remove what dead sessions left behind, or what carries the id `session`, and say what it was."""
    from breakrank.host import session as sessions
    from breakrank.host.agent_link import remove_detours
    from breakrank.runners import all_runners

    left = [] if session else [f"process {pid} ({name})" for pid, name in sessions.leftovers().items()]
    if not dry_run and not session:
        sessions.sweep()
    left += remove_detours(session, dry_run)
    for kind in all_runners().values():
        try:
            left += kind.sweep(dry_run, session)
        except BreakrankError as error:
            print(f"nothing of the runner {kind.name} was looked for: {' '.join(str(error).split())}")
    print("\n".join(left) if left else "nothing is left of dead sessions")
    return 0


def check_script(options: argparse.Namespace) -> int:
    """Check a script; return 0, 1 if something is wrong, 2 if too little was seen."""
    from breakrank.cli.check import Wishes, check

    wishes = Wishes(**{field.name: getattr(options, field.name) for field in fields(Wishes)})
    return check(options.job, options.runs, wishes, options.json)


def watch_job(options: argparse.Namespace) -> int:
    """Run a job and watch it; return its own exit code."""
    from breakrank.cli.watch import Wishes, watch

    if not options.job:
        raise BreakrankError("watch needs a job, as in python -m breakrank watch torchrun train.py")
    wishes = Wishes(options.stall, options.end_stalled, options.drift, options.leaks)
    return watch(options.job, options.runs, wishes)


def show(folder: Path) -> int:
    """Explain a saved run as its failure did; one that was cut short by what it had recorded."""
    from breakrank.report import explain
    from breakrank.runs.saved_run import limits, load_run, why_unjudged

    with limits(folder):
        saved = load_run(folder)
        _note(why_unjudged(saved))
        if saved.verdict is None:
            saved = replace(saved, verdict=_judge(saved, ()))
        _say(explain(saved))
    return 0


def judge_again(folder: Path) -> int:
    """Judge a saved run by its saved histories, and say whether that agrees with the saved verdict."""
    from breakrank.report import saved_verdict
    from breakrank.runs.saved_run import limits, load_run, why_unjudged

    with limits(folder):
        saved = load_run(folder)
        _note(why_unjudged(saved))
        # A history does not show what made its run VOID beside it: a control that failed to start, say.
        before = saved_verdict(saved) if saved.verdict is not None else None
        now = _judge(saved, before["void"] if before is not None else ())
    _say(plain(f"{now['outcome']}: {now['sentence']}"))
    if before is None:
        return 0
    differing = [name for name in ("outcome", "findings", "blame", "digest") if now[name] != before.get(name)]
    if not differing:
        _say("this agrees with the saved verdict")
        return 0
    were = f"{before['outcome']}: {before['sentence']}"
    _say(plain(f"this differs from the saved verdict in {', '.join(differing)}: {were}"))
    return 1


def _judge(saved: SavedRun, void: Sequence[str]) -> dict[str, Any]:
    """Judge a run; return the verdict in the form in which it is saved."""
    from breakrank.runs.saved_run import judge_saved

    verdict: dict[str, Any] = json.loads(json.dumps(judge_saved(saved, void).to_json()))
    return verdict


def _say(text: str) -> None:
    """Print a text to a terminal that may not have all of its letters."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def _note(text: str) -> None:
    """Say a line beside the answer, if there is one to say."""
    if text:
        sys.stderr.write(f"breakrank: {plain(text)}\n")


def explain_running(pids: Sequence[int]) -> int:
    """Say why a job that was started without us stands still, from the stacks of its ranks."""
    from breakrank.live.why import why
    from breakrank.report.groups import draw_answer

    sys.stdout.write(draw_answer(why(pids)))
    return 0


def _list() -> int:
    from breakrank.plan.catalogue import load_scenarios
    from breakrank.report.terminal import scenario_table

    sys.stdout.write(scenario_table(load_scenarios().values()))
    return 0


def _doctor() -> int:
    from breakrank.doctor import report

    sys.stdout.write(report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
