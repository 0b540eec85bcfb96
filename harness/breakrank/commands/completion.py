"""`breakrank completion`: a script by which a shell completes commands and options."""

from __future__ import annotations

import argparse
import sys

HELP = "print a script that completes commands and options in a shell"
READS_FILES = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    words = 'bash, zsh or fish, as in: eval "$(breakrank completion bash)"'
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help=words)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from breakrank.cli.completion import script
    from breakrank.commands import all_commands

    parsers = {}
    for name, command in all_commands().items():
        parsers[name] = argparse.ArgumentParser(description=command.HELP)
        command.add(parsers[name])
    sys.stdout.write(script(options.shell, parsers))
    return 0
