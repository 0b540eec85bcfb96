"""The command line: the options, as pytest gets them, and the values that were given."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from breakrank_agent.protocol.frameworks import all_frameworks

PREFIX = "--scenario"
#: The option pairs (flag, settings). Numbers stay text here, so that a bad one gets one line and not argparse's usage.
_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {"action": "append", "metavar": "NAME", "help": "run these scenarios: a name, glob, family (also as "
          "family:NAME), `all`, or a list of them with commas; repeatable. Without a path nothing else is collected"}),
    ("-train", {"metavar": "CMD", "help": "run your own script instead of the programs that come with a scenario, as "
                "in 'train.py --epochs 2'; its folder stays untouched"}),
    ("-reference", {"metavar": "CMD", "help": "your script as one rank with the same global batch, as in 'train.py "
                    "--batch 256'; the ranks' parameters are compared with its own, step by step"}),
    ("-in-place", {"action": "store_true", "help": "run that script in its folder itself, not in a view of it"}),
    ("-ranks", {"metavar": "N", "help": "number of ranks (default: the scenario's)"}),
    ("-seed", {"metavar": "N", "help": "seed of all chance (default: 0)"}),
    ("-seeds", {"metavar": "A..B", "help": "run each case once at every seed from A to B, and say at how many it does "
                "harm, and which is the first"}),
    ("-framework", {"metavar": "NAME", "help": f"only cases of this framework: {' or '.join(all_frameworks())}"}),
    ("-runner", {"metavar": "NAME", "help": "how ranks are started: process, sandbox (each with "
                "a network and processes of its own), docker (in containers), hosts (over ssh), slurm (batch jobs), "
                "or auto: docker for an image, hosts where some are named, slurm for a strike of the cluster, sandbox "
                "for one that needs isolated ranks, else process"}),
    ("-hosts", {"metavar": "A,B", "help": "start the ranks on these hosts, as ssh knows them; nothing but its server "
                "and python3 is needed there"}),
    ("-image", {"metavar": "REF", "help": "the image of the containers: its own Python and frameworks run the ranks"}),
    ("-compare", {"metavar": "REF", "help": "say what got better or worse against the last run on that image"}),
    ("-steps", {"metavar": "N", "help": "end your own script N steps after the last strike (after N, without one)"}),
    ("-step", {"metavar": "MODULE:FUNCTION", "help": "the function of your own script, or of a module that it imports, "
               "whose return ends a step (default: the first optimizer that steps)"}),
    ("-apart", {"metavar": "NAMES", "help": "parameters of your own script that ranks mean to have each for itself, as "
                "in 'experts.*,head.*'"}),
    ("-restarts", {"metavar": "N", "help": "how often a failed group is started again (default: the scenario's)"}),
    ("-patience", {"metavar": "S", "help": "seconds that a proven wait may go on, so that the framework can time out"}),
    ("-deadline", {"metavar": "S", "help": "seconds without a new point on any rank until a run is ended as hung"}),
    ("-tolerance", {"metavar": "X", "help": "relative distance that a result may have from the control's"}),
    ("-cold", {"action": "store_true", "help": "start each rank cold, instead of forking it from a warm process"}),
    ("-repeat", {"metavar": "N", "help": "run each case N times and require one digest"}),
    ("-replay", {"metavar": "RUN_DIR", "help": "run a saved plan again and compare with its saved verdict"}),
    ("-trust", {"action": "store_true", "help": "replay a run directory that was not made by you on this machine: it "
                "runs the code that it names (look first, with --scenario-dry-run)"}),
    ("-html", {"metavar": "DIR", "help": "draw each run that fails as a page for a browser in this folder"}),
    ("-html-all", {"action": "store_true", "help": "draw each run there, not only those that fail"}),
    ("-json", {"metavar": "FILE", "help": "write a line of JSON for the session, and one for each result"}),
    ("-report", {"metavar": "SITE", "help": "write the matrix of scenarios, cases and sessions into this folder, as a "
                 "page (needs jinja2)"}),
    ("-retries", {"metavar": "N", "help": "try a case N times more whose result is not the last one, and say whether "
                  "it is flaky or has changed"}),
    ("-budget", {"metavar": "TIME", "help": "start no case after so long, as 90s, 30m or 2h; those that never ran come "
                 "first, then those not tested for longest, the slowest first"}),
    ("-resume", {"nargs": "?", "const": "last", "metavar": "N", "help": "go on with the last session, which was "
                 "interrupted, or with session N of the history: cases that it has a result of are left out"}),
    ("-dry-run", {"action": "store_true", "help": "say in words what would run, and run nothing"}),
    ("-list", {"nargs": "?", "const": "text", "metavar": "FORM", "help": "list the scenarios (with -v: their cases), "
               "those of --scenario and -k if they are given; =json: all that is known of them"}),
    ("-doctor", {"action": "store_true", "help": "say what this machine has and lacks"}),
)  # fmt: skip


def destination(suffix: str) -> str:
    """Return the attribute of an option: not `scenario…`, which another plugin's option of that name would share."""
    return "breakrank" + suffix.replace("-", "_")


def add_ini(parser: pytest.Parser) -> None:
    """Add the ini options."""
    parser.addini("scenario_paths", "folders with scenarios of your own", type="paths", default=[])
    parser.addini("scenario_runs", "folder for run directories (default: .breakrank)", default=".breakrank")
    parser.addini("scenario_runs_limit", "size of that folder in MB (default: 500)", default="500")
    parser.addini("scenario_hosts", "hosts that ranks are started on, as ssh knows them", default="")
    parser.addini("scenario_ssh", "command that reaches these hosts (default: ssh)", default="ssh")
    parser.addini("scenario_html", "folder for pages of runs that fail (default: none are drawn)", default="")


def hide_values(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Take our options and their values out of what pytest has parsed so far.

    They are not registered yet, and pytest would take a value for a path when it looks for the initial conftests.
    """
    if not _uses_ours(args):
        return
    ours = _Quiet(add_help=False, allow_abbrev=False)
    for suffix, settings in _OPTIONS:
        ours.add_argument(PREFIX + suffix, dest=destination(suffix), **settings)
    try:
        _, others = ours.parse_known_args(args)
        config.known_args_namespace = parser.parse_known_args(others, namespace=copy.copy(config.option))
    except _Unusable:
        return  # pytest says it better when it parses for good


class _Unusable(Exception):
    """The command line cannot be parsed."""


class _Quiet(argparse.ArgumentParser):
    """A parser that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise `_Unusable`."""
        raise _Unusable(message)


def _uses_ours(args: Sequence[str]) -> bool:
    return any(arg == PREFIX or arg.startswith((f"{PREFIX}=", f"{PREFIX}-")) for arg in args)


def add_command_line(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Add the command line's options. Raises `pytest.UsageError` if another plugin has one and it is in use."""
    taken = _taken(parser)
    if taken and _uses_ours(args):
        raise pytest.UsageError(f"breakrank: {_conflict(config, taken[0])}")
    group = parser.getgroup("breakrank", "Breakrank: distributed training, broken on purpose")
    for suffix, settings in _OPTIONS:
        if PREFIX + suffix not in taken:
            group.addoption(PREFIX + suffix, dest=destination(suffix), **settings)


def _taken(parser: pytest.Parser) -> list[str]:
    """Return those of our options that somebody else has added: what the parser knows before ours are there.

    Adding one and catching the error does not do: what is raised, and when, differs between versions of pytest.
    """
    flags = [PREFIX + suffix for suffix, _ in _OPTIONS]
    try:
        _, unknown = parser.parse_known_and_unknown_args([f"{flag}=1" for flag in flags])
    except pytest.UsageError:  # an option of that name exists and takes no such value
        return [flag for flag in flags if not _unknown(parser, flag)]
    return [flag for flag in flags if f"{flag}=1" not in unknown]


def _unknown(parser: pytest.Parser, flag: str) -> bool:
    """Return whether nobody has added `flag`."""
    try:
        return bool(parser.parse_known_and_unknown_args([f"{flag}=1"])[1])
    except pytest.UsageError:
        return False


def _conflict(config: pytest.Config, flag: str) -> str:
    """Name the plugin that owns our option, and the way out."""
    for name, plugin in config.pluginmanager.list_name_plugin():
        # The owner is found by the constants of its function: pytest keeps no note of who added an option.
        code = getattr(getattr(plugin, "pytest_addoption", None), "__code__", None)
        if code is None or flag not in code.co_consts:
            continue
        cure = "rename it there" if name.endswith("conftest.py") else f"add -p no:{name} or uninstall that plugin"
        return f"the plugin {name!r} has an option {flag} of its own; {cure}"
    return f"another plugin has an option {flag} of its own; disable it with -p no:NAME or uninstall it"


def given(config: pytest.Config, suffix: str) -> Any:
    """Return an option's value, or None if it was not given."""
    return getattr(config.option, destination(suffix), None) or None
