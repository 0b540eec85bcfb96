"""The values of the options and of the ini file, checked, and what they come to."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from breakrank.errors import BreakrankError
from breakrank.memory.spans import seconds_of
from breakrank.nodes.host_names import HERE, Hosts
from breakrank.plan.build import AUTO
from breakrank.plan.for_scripts import patterns
from breakrank.plan.script import check_script, check_step, framework_of, is_script
from breakrank.plugin.command_line import PREFIX, destination, given
from breakrank.plugin.host_options import host_names, read_hosts
from breakrank.plugin.pages import Pages, read_pages
from breakrank_agent.protocol.frameworks import all_frameworks

#: The runner whose ranks are on hosts that are named.
ON_HOSTS = "hosts"
_MOST_SEED = 2**63 - 1
_MOST_REPEATS = 1000
_MOST_RESTARTS = 100
_MOST_STEPS = 10**9
_MOST_RETRIES = 100
#: Options of the memory, and of what is written beside it; a replay is no new result.
_OF_THE_MEMORY = ("-json", "-report", "-retries", "-budget", "-resume")
#: Options that a saved plan decides, so that a replay takes none of them.
_OF_THE_PLAN = (
    "", "-train", "-reference", "-steps", "-step", "-apart", "-ranks", "-seed", "-seeds", "-framework", "-restarts",
    "-patience", "-deadline", "-tolerance", "-repeat", "-image", "-compare", *_OF_THE_MEMORY,
)  # fmt: skip


#: Options, most of them about a script of one's own, which do nothing by themselves.
_OF_A_SCENARIO = ("-train", "-reference", "-steps", "-step", "-apart")


def asks_for_text(config: pytest.Config) -> bool:
    """Return whether the list or the doctor is asked for."""
    return bool(given(config, "-list") or given(config, "-doctor"))


def form_of_list(config: pytest.Config) -> str:
    """Return the form in which the list is asked for."""
    return str(given(config, "-list"))


def names(config: pytest.Config) -> tuple[str, ...]:
    """Return the names that `--scenario` lists; none if there are none."""
    given: list[str] = getattr(config.option, destination(""), None) or []
    return tuple(name.strip() for value in given for name in value.split(",") if name.strip())


def wants_doctor(config: pytest.Config) -> bool:
    """Return whether the doctor is asked for."""
    return bool(given(config, "-doctor"))


def asked_for(config: pytest.Config) -> bool:
    """Return whether any scenario is to run."""
    return any(given(config, s) is not None for s in ("", "-replay", "-dry-run")) or _empty(config)


def check_unused(config: pytest.Config) -> None:
    """Raise `BreakrankError` if a script of one's own is named, or is spoken of, and no scenario to run it through."""
    for suffix in (*_OF_A_SCENARIO, *_OF_THE_MEMORY):
        if given(config, suffix) is not None:
            cure = f"as in {PREFIX}=baseline ({PREFIX}-list shows them all)"
            raise BreakrankError(f"{PREFIX}{suffix} needs a scenario, {cure}")


def _empty(config: pytest.Config) -> bool:
    """Return whether an option was given with an empty value."""
    return any(getattr(config.option, destination(s), None) in ("", [""]) for s in ("", "-replay"))


@dataclass(frozen=True)
class Options:
    """The values of the options; None: the scenario's own."""

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
    apart: tuple[str, ...] = ()
    runner: str = AUTO
    #: The hosts that ranks are started on, and how they are reached.
    hosts: Hosts = HERE
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
    pages: Pages = field(default_factory=Pages)
    json: Path | None = None
    report: Path | None = None
    retries: int = 0
    budget_s: float | None = None
    #: The session of the history to go on with: its number, 0 for the last one, or None for a new one.
    resume: int | None = None


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
        apart=patterns(_text(config, "-apart") or ""),
        runner=_runner(config),
        hosts=read_hosts(config),
        framework=_framework(config) or (framework_of(train, config.invocation_params.dir) if train else ""),
        repeat=_whole(PREFIX + "-repeat", _text(config, "-repeat"), 1, _MOST_REPEATS) or 1,
        replay=replay,
        trust=_trust(config, replay),
        dry_run=bool(given(config, "-dry-run")),
        cold=bool(given(config, "-cold")),
        train=train,
        reference=_reference(config),
        folder=config.invocation_params.dir,
        in_place=bool(given(config, "-in-place")),
        steps=_whole(PREFIX + "-steps", _of_script(config, "-steps", train), 1, _MOST_STEPS),
        step=_step(config, train),
        image=_image(config),
        compare=_compare(config),
        pages=read_pages(config),
        json=_place(config, "-json"),
        report=_site(config),
        retries=_whole(PREFIX + "-retries", _text(config, "-retries"), 0, _MOST_RETRIES) or 0,
        budget_s=_budget(config),
        resume=_resume(config),
    )


def _text(config: pytest.Config, suffix: str) -> str | None:
    value = getattr(config.option, destination(suffix), None)
    return None if value is None else str(value)


def _reference(config: pytest.Config) -> tuple[str, ...]:
    """Return the words of the command that is one rank. Raises `BreakrankError` where there is nothing to compare."""
    words = _command(config, "-reference")
    if words and not (_text(config, "-train") and is_script(words)):
        raise BreakrankError(
            f"{PREFIX}-reference needs a Python script, as in 'train.py --one', and {PREFIX}-train to compare with it"
        )
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
    """Return the names that `--scenario` lists. Raises `BreakrankError` if there are none."""
    listed = names(config)
    if not listed:
        raise BreakrankError(f"no scenario is named; use {PREFIX}=NAME or {PREFIX}=all ({PREFIX}-list shows them)")
    return listed


def _replay(config: pytest.Config) -> Path | None:
    """Return the run directory to replay. A replay takes everything from the saved plan."""
    text = _text(config, "-replay")
    if text is None:
        return None
    if not text:
        raise BreakrankError(f"{PREFIX}-replay needs a run directory, as a failure's report names it")
    for suffix in _OF_THE_PLAN:
        if given(config, suffix) is not None:
            raise BreakrankError(f"{PREFIX}-replay runs the saved plan as it is; leave out {PREFIX}{suffix}")
    return config.invocation_params.dir / text


def _trust(config: pytest.Config, replay: Path | None) -> bool:
    """Return whether a directory of somebody else's may be replayed. Raises `BreakrankError` without a replay."""
    trust = bool(given(config, "-trust"))
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
        if given(config, other) is not None:
            raise BreakrankError(f"{PREFIX}-seeds runs each case at every seed once; leave out {PREFIX}{other}")
    return range(int(first), int(last) + 1)


def _runner(config: pytest.Config) -> str:
    """Return the runner that was asked for, or `auto`. Raises `BreakrankError` for an unknown one."""
    from breakrank.runners import image_runner, nearest, offered_runners

    runner, known = _text(config, "-runner") or AUTO, (AUTO, *offered_runners())
    if runner not in known:
        near = nearest(runner, known)
        hint = f"did you mean {near}? Use" if near else "use"
        raise BreakrankError(f"{PREFIX}-runner is {runner!r}; {hint} {_either(known)}")
    if runner == AUTO and _text(config, "-image"):
        return image_runner()
    if runner == ON_HOSTS and not host_names(config):
        raise BreakrankError(f"{PREFIX}-runner={runner} needs hosts; name them with {PREFIX}-hosts=a,b, as ssh does")
    if _text(config, "-hosts") is not None and runner not in (AUTO, ON_HOSTS):
        raise BreakrankError(f"{PREFIX}-hosts is for the runner {ON_HOSTS}, not {runner}; leave one of them out")
    return ON_HOSTS if runner == AUTO and host_names(config) else runner


def _image(config: pytest.Config) -> str:
    """Return the image of the containers, empty if there are none to be. Raises `BreakrankError`."""
    from breakrank.runners import find_runner, image_runner

    image, wanted = _text(config, "-image") or "", _text(config, "-runner") or AUTO
    has_image = wanted != AUTO and find_runner(wanted).has_image
    if has_image and not image:
        raise BreakrankError(f"{PREFIX}-runner={wanted} needs an image; name one with {PREFIX}-image")
    if image and wanted != AUTO and not has_image:
        raise BreakrankError(f"{PREFIX}-image is for the runner {image_runner()}, not {wanted}; leave one of them out")
    if image and given(config, "-in-place"):
        raise BreakrankError(f"{PREFIX}-in-place cannot be in containers; leave it or {PREFIX}-image out")
    return image


def _compare(config: pytest.Config) -> str:
    """Return the image to compare with. Raises `BreakrankError` where there is nothing to compare."""
    compare = _text(config, "-compare") or ""
    if compare and not _text(config, "-image"):
        raise BreakrankError(f"{PREFIX}-compare compares images; name the one to run with {PREFIX}-image")
    return compare


def _place(config: pytest.Config, suffix: str) -> Path | None:
    """Return a path that was given, below the folder where pytest was called; None if none was."""
    text = _text(config, suffix)
    if text == "":
        raise BreakrankError(f"{PREFIX}{suffix} needs a path")
    return None if text is None else config.invocation_params.dir / text


def _site(config: pytest.Config) -> Path | None:
    """Return the folder of the report. Raises `BreakrankError` if none could be written."""
    site = _place(config, "-report")
    if site is not None:
        from breakrank.report.site import check_templates

        check_templates()
    return site


def _budget(config: pytest.Config) -> float | None:
    """Return the seconds after which no case is started."""
    text = _text(config, "-budget")
    return None if text is None else seconds_of(text, f"{PREFIX}-budget")


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


def _resume(config: pytest.Config) -> int | None:
    """Return the number of the session to go on with, 0 for the last one, or None for a new one."""
    text = _text(config, "-resume")
    return 0 if text == "last" else _whole(PREFIX + "-resume", text, 1, _MOST_SEED)


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
