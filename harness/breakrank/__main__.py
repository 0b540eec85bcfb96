"""`breakrank`, and `python -m breakrank`: what can be asked without pytest. `breakrank.commands` has the commands."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import itertools
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from breakrank import __version__
from breakrank.commands import all_commands, note
from breakrank.errors import BreakrankError
from breakrank.host.user_limits import check_proc
from breakrank_agent.protocol.log import HistoryError
from breakrank_agent.protocol.trigger import PlanError

#: pytest's exit code for a usage error, so that both ways in answer alike.
_USAGE = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one command; return its exit code, or 4 for bad usage."""
    words = _spelled_out(sys.argv[1:] if arguments is None else arguments)
    if words and not words[0].startswith("-") and words[0] not in all_commands():
        note(_no_command(words[0]))
        return _USAGE
    options = _parser().parse_args(words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The name of a folder may be no UTF-8: it is written as well as it can be.
        sys.stdout.reconfigure(errors="backslashreplace")
    command = all_commands()[options.command]
    try:
        if not getattr(command, "READS_FILES", False):
            check_proc()
        return command.run(options)
    except (BreakrankError, PlanError, HistoryError) as error:
        note(" ".join(str(error).split()))
        return _USAGE
    except (KeyboardInterrupt, BrokenPipeError):
        return 130


def _no_command(word: str) -> str:
    """Say of a word that is no command which ones there are, the nearest first."""
    names = sorted(all_commands())
    near = difflib.get_close_matches(word, names, n=1)
    return f"there is no command {word!r}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}")


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

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print them."""
        print(_version())
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    name = "breakrank" if Path(sys.argv[0]).name == "breakrank" else "python -m breakrank"
    parser = _Parser(prog=name, description="Distributed training, broken on purpose.")
    parser.add_argument("--version", action=_Version, nargs=0, help="say the versions of this and of what it runs on")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in all_commands().items():
        command.add(commands.add_parser(name, help=command.HELP))
    return parser


def _version() -> str:
    """Return the version of this installation, with those of Python and of the frameworks that are there."""
    from importlib.metadata import PackageNotFoundError, version

    found = [f"Python {platform.python_version()}"]
    for name in ("torch", "tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return f"breakrank {__version__} ({', '.join(found)})"


if __name__ == "__main__":
    sys.exit(main())
