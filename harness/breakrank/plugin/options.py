"""The options, the ini values, and what they come to."""

from __future__ import annotations

import argparse
import copy
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from breakrank.errors import BreakrankError
from breakrank.plan.script import check_script, check_step, framework_of, is_script
from breakrank_agent.protocol.frameworks import all_frameworks

PREFIX = "--scenario"
#: What the option for the runner takes. `auto` puts up walls where a strike needs them.
RUNNERS = ("auto", "process", "sandbox", "docker")
#: Runners of the design that come later.
LATER_RUNNERS = ("slurm",)
_MOST_SEED = 2**63 - 1
_MOST_REPEATS = 1000
_MOST_RESTARTS = 100
_MOST_STEPS = 10**9
#: The option pairs (flag, settings). Numbers stay text here, so that a bad one gets one line and not argparse's usage.
_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {"action": "append", "metavar": "NAME", "help": "run these scenarios: a name, glob, family, `all`, or a list "
          "of them with commas; repeatable. Without a path nothing else is collected"}),
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
    ("-runner", {"metavar": "NAME", "help": "how ranks are started: process, sandbox (each behind "
                "walls of its own), docker (each in a container), or auto, which takes the walls where a strike needs "
                "them, and docker for an image"}),
    ("-image", {"metavar": "REF", "help": "the image of the containers: its own Python and frameworks run the ranks"}),
    ("-compare", {"metavar": "REF", "help": "say what got better or worse against the last run on that image"}),
    ("-steps", {"metavar": "N", "help": "end your own script N steps after the last strike (after N, without one)"}),
    ("-step", {"metavar": "MODULE:FUNCTION", "help": "the function of your own script, or of a module that it imports, "
               "whose return ends a step (default: the first optimizer that steps)"}),
    ("-restarts", {"metavar": "N", "help": "how often a failed group is started again (default: the scenario's)"}),
    ("-patience", {"metavar": "S", "help": "seconds that a proven wait may go on, so that the framework can time out"}),
    ("-deadline", {"metavar": "S", "help": "seconds without a new point on any rank until a run is ended as hung"}),
    ("-tolerance", {"metavar": "X", "help": "relative distance that a result may have from the control's"}),
    ("-cold", {"action": "store_true", "help": "start each rank cold, instead of forking it from a warm process"}),
    ("-repeat", {"metavar": "N", "help": "run each case N times and require one digest"}),
    ("-replay", {"metavar": "RUN_DIR", "help": "run a saved plan again and compare with its saved verdict"}),
    ("-trust", {"action": "store_true", "help": "replay a run directory that was not made by you on this machine: it "
                "runs the code that it names (look first, with --scenario-dry-run)"}),
    ("-dry-run", {"action": "store_true", "help": "say in words what would run, and run nothing"}),
    ("-list", {"action": "store_true", "help": "list the scenarios and their cases"}),
    ("-doctor", {"action": "store_true", "help": "say what this machine has and lacks"}),
)  # fmt: skip


#: What a saved plan says, so that a replay cannot be asked for it.
_OF_THE_PLAN = (
    "", "-train", "-reference", "-steps", "-step", "-ranks", "-seed", "-seeds", "-framework", "-restarts", "-patience",
    "-deadline", "-tolerance", "-repeat", "-image", "-compare",
)  # fmt: skip


#: What is about a script of one's own, and does nothing by itself.
_OF_A_SCRIPT = ("-train", "-reference", "-steps", "-step")


def _destination(suffix: str) -> str:
    """Return the attribute of an option: not `scenario…`, which another plugin's option of that name would share."""
    return "breakrank" + suffix.replace("-", "_")


def add_ini(parser: pytest.Parser) -> None:
    """Add the ini options."""
    parser.addini("scenario_paths", "folders with scenarios of your own", type="paths", default=[])
    parser.addini("scenario_runs", "folder for run directories (default: .breakrank)", default=".breakrank")
    parser.addini("scenario_runs_limit", "size of that folder in MB (default: 500)", default="500")


def hide_values(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Take our options and their values out of what pytest has parsed so far.

    They are not registered yet, and pytest would take a value for a path when it looks for the initial conftests.
    """
    if not _uses_ours(args):
        return
    ours = _Quiet(add_help=False, allow_abbrev=False)
    for suffix, settings in _OPTIONS:
        ours.add_argument(PREFIX + suffix, dest=_destination(suffix), **settings)
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
            group.addoption(PREFIX + suffix, dest=_destination(suffix), **settings)


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


def _given(config: pytest.Config, suffix: str) -> Any:
    """Return an option's value, or None if it was not given."""
    return getattr(config.option, _destination(suffix), None) or None


def asks_for_text(config: pytest.Config) -> bool:
    """Return whether the list or the doctor is asked for."""
    return bool(_given(config, "-list") or _given(config, "-doctor"))


def wants_doctor(config: pytest.Config) -> bool:
    """Return whether the doctor is asked for."""
    return bool(_given(config, "-doctor"))


def asked_for(config: pytest.Config) -> bool:
    """Return whether any scenario is to run."""
    return any(_given(config, s) is not None for s in ("", "-replay", "-dry-run")) or _empty(config)


def check_unused(config: pytest.Config) -> None:
    """Raise `BreakrankError` if a script of one's own is named, or is spoken of, and no scenario to run it through."""
    for suffix in _OF_A_SCRIPT:
        if _given(config, suffix) is not None:
            cure = f"as in {PREFIX}=baseline ({PREFIX}-list shows them all)"
            raise BreakrankError(f"{PREFIX}{suffix} needs a scenario, {cure}")


def _empty(config: pytest.Config) -> bool:
    """Return whether an option was given with an empty value."""
    return any(getattr(config.option, _destination(s), None) in ("", [""]) for s in ("", "-replay"))


@dataclass(frozen=True)
class Options:
    """What was asked for; None: the scenario's own."""

    names: tuple[str, ...]
    paths: tuple[Path, ...]
    runs: Path
    runs_limit_mb: int
    seed: int = 0
    #: The seeds to search; empty: `seed` alone.
    seeds: range = range(0)
    ranks: int | None = None
    restarts: int | None = None
    deadline_s: float | None = None
    patience_s: float | None = None
    tolerance: float | None = None
    runner: str = "auto"
    framework: str = ""
    repeat: int = 1
    replay: Path | None = None
    trust: bool = False
    dry_run: bool = False
    cold: bool = False
    train: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    folder: Path = Path()
    in_place: bool = False
    steps: int | None = None
    step: str = ""
    image: str = ""
    compare: str = ""


def scenario_paths(config: pytest.Config) -> tuple[Path, ...]:
    """Return the folders of the ini option `scenario_paths`."""
    return tuple(Path(p) for p in config.getini("scenario_paths"))


def read(config: pytest.Config) -> Options:
    """Return what was asked for. Raises `BreakrankError` for a value that cannot be."""
    from breakrank import doctor

    replay = _replay(config)
    train = _command(config, "-train")
    return Options(
        names=() if replay else _names(config),
        paths=scenario_paths(config),
        runs=runs(config),
        runs_limit_mb=runs_limit(config),
        seed=_whole(PREFIX + "-seed", _text(config, "-seed"), 0, _MOST_SEED) or 0,
        seeds=_seeds(config),
        ranks=_whole(PREFIX + "-ranks", _text(config, "-ranks"), 1, doctor.most_ranks(), "this machine bears"),
        restarts=_whole(PREFIX + "-restarts", _text(config, "-restarts"), 0, _MOST_RESTARTS),
        deadline_s=_number(PREFIX + "-deadline", _text(config, "-deadline"), above_zero=True),
        patience_s=_number(PREFIX + "-patience", _text(config, "-patience")),
        tolerance=_number(PREFIX + "-tolerance", _text(config, "-tolerance")),
        runner=_runner(config),
        framework=_framework(config) or (framework_of(train, config.invocation_params.dir) if train else ""),
        repeat=_whole(PREFIX + "-repeat", _text(config, "-repeat"), 1, _MOST_REPEATS) or 1,
        replay=replay,
        trust=_trust(config, replay),
        dry_run=bool(_given(config, "-dry-run")),
        cold=bool(_given(config, "-cold")),
        train=train,
        reference=_reference(config),
        folder=config.invocation_params.dir,
        in_place=bool(_given(config, "-in-place")),
        steps=_whole(PREFIX + "-steps", _of_script(config, "-steps", train), 1, _MOST_STEPS),
        step=_step(config, train),
        image=_image(config),
        compare=_compare(config),
    )


def _text(config: pytest.Config, suffix: str) -> str | None:
    value = getattr(config.option, _destination(suffix), None)
    return None if value is None else str(value)


def _reference(config: pytest.Config) -> tuple[str, ...]:
    """Return the words of the command that is one rank. Raises `BreakrankError` where there is nothing to compare."""
    words = _command(config, "-reference")
    if words and not (_text(config, "-train") and is_script(words)):
        raise BreakrankError(f"{PREFIX}-reference needs a Python script, and {PREFIX}-train to compare with it")
    return words


def _command(config: pytest.Config, suffix: str) -> tuple[str, ...]:
    """Return the words of a command of the user's. Raises `BreakrankError` for a script that cannot be run."""
    text = _text(config, suffix)
    if text is None:
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BreakrankError(f"{PREFIX}{suffix} is {text!r}: {error}") from None
    if not words:
        raise BreakrankError(f"{PREFIX}{suffix} needs a command, as in {PREFIX}{suffix}='train.py --epochs 2'")
    check_script(words, config.invocation_params.dir)
    return words


def _of_script(config: pytest.Config, suffix: str, train: tuple[str, ...]) -> str | None:
    """Return the text of an option that is about a script. Raises `BreakrankError` where there is none."""
    text = _text(config, suffix)
    if text is not None and not train:
        raise BreakrankError(f"{PREFIX}{suffix} is about a script of your own: name it with {PREFIX}-train")
    return text


def _step(config: pytest.Config, train: tuple[str, ...]) -> str:
    """Return the function that ends a step, empty if none is named. Raises `BreakrankError`."""
    text = _of_script(config, "-step", train)
    if text is not None:
        try:
            check_step(text, train, config.invocation_params.dir)
        except BreakrankError as error:
            raise BreakrankError(f"{PREFIX}-step is {text!r}: {error}") from None
    return text or ""


def _names(config: pytest.Config) -> tuple[str, ...]:
    """Return the names that `--scenario` lists."""
    given: list[str] = getattr(config.option, _destination(""), None) or []
    names = tuple(name.strip() for value in given for name in value.split(",") if name.strip())
    if not names:
        raise BreakrankError(f"no scenario is named; use {PREFIX}=NAME or {PREFIX}=all ({PREFIX}-list shows them)")
    return names


def _replay(config: pytest.Config) -> Path | None:
    """Return the run directory to replay. A replay takes everything from the saved plan."""
    text = _text(config, "-replay")
    if text is None:
        return None
    if not text:
        raise BreakrankError(f"{PREFIX}-replay needs a run directory, as a failure's report names it")
    for suffix in _OF_THE_PLAN:
        if _given(config, suffix) is not None:
            raise BreakrankError(f"{PREFIX}-replay runs the saved plan as it is; leave out {PREFIX}{suffix}")
    return config.invocation_params.dir / text


def _trust(config: pytest.Config, replay: Path | None) -> bool:
    """Return whether a directory of somebody else's may be replayed. Raises `BreakrankError` without a replay."""
    trust = bool(_given(config, "-trust"))
    if trust and replay is None:
        raise BreakrankError(f"{PREFIX}-trust is about a run directory to replay: name it with {PREFIX}-replay")
    return trust


def runs(config: pytest.Config) -> Path:
    """Return the folder for run directories; a relative one lies in the root directory."""
    return config.rootpath / (str(config.getini("scenario_runs")).strip() or ".breakrank")


def runs_limit(config: pytest.Config) -> int:
    """Return the size in MB that this folder may have."""
    return _whole("scenario_runs_limit", str(config.getini("scenario_runs_limit")), 1, 10**9) or 500


def _seeds(config: pytest.Config) -> range:
    """Return the seeds to search. Raises `BreakrankError` for what is no range of them."""
    text = _text(config, "-seeds")
    if text is None:
        return range(0)
    first, dots, last = text.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last) <= _MOST_SEED):
        raise BreakrankError(f"{PREFIX}-seeds is {text!r}; give two whole numbers, as in {PREFIX}-seeds=0..99")
    for other in ("-seed", "-repeat"):
        if _given(config, other) is not None:
            raise BreakrankError(f"{PREFIX}-seeds runs each case at every seed once; leave out {PREFIX}{other}")
    return range(int(first), int(last) + 1)


def _runner(config: pytest.Config) -> str:
    runner = _text(config, "-runner") or "auto"
    if runner in LATER_RUNNERS:
        raise BreakrankError(f"{PREFIX}-runner={runner} comes later; use {_either(RUNNERS)}")
    if runner not in RUNNERS:
        raise BreakrankError(f"{PREFIX}-runner is {runner!r}; use {_either(RUNNERS)}")
    return "docker" if _text(config, "-image") and runner == "auto" else runner


def _image(config: pytest.Config) -> str:
    """Return the image of the containers, empty if there are none to be. Raises `BreakrankError`."""
    image = _text(config, "-image") or ""
    wanted = _text(config, "-runner") or "auto"
    if wanted == "docker" and not image:
        raise BreakrankError(f"{PREFIX}-runner=docker needs an image; name one with {PREFIX}-image")
    if image and wanted not in ("auto", "docker"):
        raise BreakrankError(f"{PREFIX}-image is for the runner docker, not {wanted}; leave one of them out")
    if image and _given(config, "-in-place"):
        raise BreakrankError(f"{PREFIX}-in-place cannot be in containers; leave it or {PREFIX}-image out")
    return image


def _compare(config: pytest.Config) -> str:
    """Return the image to compare with. Raises `BreakrankError` where there is nothing to compare."""
    compare = _text(config, "-compare") or ""
    if compare and not _text(config, "-image"):
        raise BreakrankError(f"{PREFIX}-compare compares images; name the one to run with {PREFIX}-image")
    return compare


def _either(words: Sequence[str]) -> str:
    """Return `one, two or three`."""
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _framework(config: pytest.Config) -> str:
    framework = _text(config, "-framework") or ""
    if framework and framework not in all_frameworks():
        raise BreakrankError(f"{PREFIX}-framework is {framework!r}; use {' or '.join(all_frameworks())}")
    return framework


def _whole(name: str, text: str | None, least: int, most: int, limit: str = "the most is") -> int | None:
    """Return a whole number from `least` to `most`, or None if none was given."""
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise BreakrankError(f"{name} is {text!r}; give a whole number from {least}") from None
    if number < least:
        raise BreakrankError(f"{name} is {number}; give a whole number from {least}")
    if number > most:
        raise BreakrankError(f"{name} is {number}; {limit} {most}")
    return number


def _number(name: str, text: str | None, above_zero: bool = False) -> float | None:
    """Return a finite number that is not negative, or None if none was given."""
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0 or (above_zero and number == 0):
        raise BreakrankError(f"{name} is {text!r}; give a number {'above' if above_zero else 'from'} 0")
    return number
