"""Completion scripts for shells, made from the commands and their options as the command line has them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping

#: The option that each command has.
_HELP = ("--help",)
_BASH = """\
_breakrank() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={commands}
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
        # Names of files, and all that belongs to a script, are left to the shell.
        case "$word" in -*) ;; *) words="" ;; esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word" || :))
}}
complete -o default -F _breakrank breakrank
"""
#: zsh takes bash's functions then.
_ZSH = """\
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""


def script(shell: str, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script that completes `breakrank` in a shell; `commands` are the parsers of the commands, by name."""
    options = {name: [*_HELP, *_options_of(parser)] for name, parser in commands.items()}
    if shell == "fish":
        return _fish(commands, options)
    cases = [f"            {name}) words={shlex.quote(' '.join(known))} ;;" for name, known in options.items()]
    text = _BASH.format(commands=shlex.quote(" ".join(["--version", *options])), cases="\n".join(cases))
    return _ZSH + text if shell == "zsh" else text


def _options_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long options of a command."""
    every = [option for action in parser._actions for option in action.option_strings]
    return [option for option in every if option.startswith("--") and option not in _HELP]


def _fish(commands: Mapping[str, argparse.ArgumentParser], options: Mapping[str, list[str]]) -> str:
    lines = ["complete -c breakrank -n __fish_use_subcommand -l version"]
    for name, parser in commands.items():
        said = shlex.quote(parser.description or "")
        lines.append(f"complete -c breakrank -f -n __fish_use_subcommand -a {name} -d {said}")
        within = f"'__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c breakrank -n {within} -l {option.removeprefix('--')}" for option in options[name]]
    return "\n".join(lines) + "\n"
