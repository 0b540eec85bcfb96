"""Run directories that a stranger has tampered with, drawn from a seed."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import os
import random
import shutil
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakrank.__main__ import main
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at
from support.plans import PROGRAMS, plan_of
from support.styles import SCRIPTS, plan_of_script

#: Values that are put in the place of another one.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**62, 10**18, 10**300, -(2**63), 0.5, -1e300, float("nan"), float("inf")),
    *(
        "",
        "x",
        "main",
        "0",
        "../../x",
        "/etc/passwd",
        "\x1b[31mred\x1b[0m",
        "a\nb",
        "\0",
        "\ud800",
        "é" * 100,
        "9" * 5000,
    ),
    *([], {}, [[]], [None], [1, "a", {}], {"a": {}}, {"kind": "point"}, ["x"] * 1000, [[[[[[[[[[]]]]]]]]]]),
)
#: The seconds after which a command on a mutant is a hang.
LIMIT_S = 60


def make_kinds(bench: Bench, folder: Path) -> dict[str, Path]:
    """Return run directories of six kinds: of several outcomes, under a schedule, restarted, of a script."""
    kill = faults.Kill() @ at(rank=1, step=2, point="collective")
    plans = {
        "survived": plan_of("small:train", faults.Placebo() @ at(rank=1, step=2)),
        "silent": plan_of("files:both_write", controlled="random", control="files:one_writes"),
        "hung": plan_of("small:train", faults.Stop() @ at(rank=1, step=2)),
        "crashed": plan_of("small:segfaults"),
        "restarted": plan_of("small:train", kill, restarts=1),
    }
    kinds = {name: bench.run(Request(plan, programs=PROGRAMS)).folder for name, plan in plans.items()}
    folder.mkdir()
    shutil.copy(SCRIPTS / "functions.py", folder)
    script = plan_of_script("functions.py --steps 4", [faults.Kill() @ at(rank=1, step=3, point="collective")])
    return {**kinds, "script": bench.run(Request(script, where=folder)).folder}


@dataclass(frozen=True)
class Answer:
    """The answer of a command on a run directory; `raised` is an exception, which no command may raise."""

    code: int | None
    out: str
    err: str
    raised: str = ""

    @property
    def is_fine(self) -> bool:
        """True if the command ended with an answer, or with one line of error, and no character moves a terminal."""
        text = self.out + self.err
        quiet = not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in text)
        one_line = self.code != 4 or (self.err.startswith("breakrank: ") and self.err.count("\n") <= 2 and not self.out)
        return not self.raised and self.code in (0, 1, 4) and quiet and one_line and "Traceback" not in text


class _Hung(BaseException):
    """A command did not end."""


def ask(command: str, folder: Path, limit_s: float = LIMIT_S) -> Answer:
    """Run `show` or `judge` on a directory in this process."""
    out, err = io.StringIO(), io.StringIO()

    def give_up(*_: object) -> None:
        raise _Hung

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([command, str(folder)])
    except BaseException as error:
        return Answer(None, out.getvalue(), err.getvalue(), f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return Answer(code, out.getvalue(), err.getvalue())


def fingerprint(folder: Path) -> str:
    """Return a digest of all that is in a folder: names, kinds, modes and contents; no link is followed."""
    lines = []
    for parent, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            path = Path(parent, name)
            found = path.lstat()
            regular = path.is_file() and not path.is_symlink()
            small = regular and found.st_size < 1 << 20
            content = hashlib.sha256(path.read_bytes()).hexdigest() if small else f"{found.st_size} {found.st_mtime_ns}"
            lines.append(f"{path.relative_to(folder)} {found.st_mode:o} {content}")
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8", "surrogateescape")).hexdigest()


def mutate(folder: Path, seed: int) -> str:
    """Tamper with a run directory in one to three ways; return their names."""
    draw = random.Random(seed)
    said: list[str] = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        assert not folder.is_symlink(), "nothing but the directory itself may be tampered with"
        files = sorted(_files(folder))
        if not files:
            break
        # Only a few files of a run directory are ever read: most of the tries go to those.
        named = [f for f in files if f.suffix in (".json", ".jsonl", ".log") and "work" not in f.parts]
        path = draw.choice(named or files) if draw.random() < 0.9 else draw.choice(files)
        way = draw.choice(_WAYS)
        # A file that an earlier way has emptied or made huge is left as it is.
        if not 0 < path.stat().st_size < 1 << 24:
            continue
        # A way that an earlier one has made impossible is skipped.
        with contextlib.suppress(OSError):
            way(path, draw)
        said.append(f"{way.__name__.strip('_')} {path.relative_to(folder)}")
    return ", ".join(said)


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, files in os.walk(folder):
        yield from (path for name in files if stat.S_ISREG((path := Path(parent, name)).lstat().st_mode))


def _flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 8))):
        data[draw.randrange(len(data) or 1)] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def _cut(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size + 1))


def _shuffle_lines(path: Path, draw: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    draw.choice(
        (
            lambda: lines.insert(one, lines[other]),
            lambda: lines.pop(one),
            lambda: lines.__setitem__(slice(one, one + 1), [lines[other]]),
            lambda: lines.extend(lines[one:] * 3),
        )
    )()
    path.write_bytes(b"".join(lines))


def _replace_value(path: Path, draw: random.Random) -> None:
    """Put another value into one place of one line, or of the whole of a file that is one value."""
    text = path.read_bytes().decode(errors="replace")
    lines = [text] if path.suffix == ".json" else text.splitlines()
    number = draw.randrange(len(lines))
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(lines[number])
        for _ in range(draw.choice((1, 1, 3))):
            value = _spoil(value, draw)
        lines[number] = json.dumps(value)
    path.write_bytes(("\n".join(lines) + "\n").encode(errors="surrogatepass"))


def _spoil(value: Any, draw: random.Random) -> Any:
    """Replace, drop or rename something at a drawn depth."""
    if not isinstance(value, (dict, list)) or not value or draw.random() < 0.15:
        return copy.deepcopy(draw.choice(VALUES))
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw.choice(keys)
    if draw.random() < 0.1:
        del value[key]
    elif draw.random() < 0.05 and isinstance(value, dict):
        value[draw.choice(("", "x", "kind", "../x"))] = value.pop(key)
    else:
        value[key] = _spoil(value[key], draw)
    return value


def _nest(path: Path, draw: random.Random) -> None:
    deep = draw.choice(("[", '{"kind":')) * 100_000
    with path.open("ab" if draw.random() < 0.5 else "wb") as file:
        file.write(deep.encode() + b"\n")


def _grow(path: Path, draw: random.Random) -> None:
    """Make a file huge, with a hole that takes no room."""
    os.truncate(path, draw.choice((100 << 30, 600 << 20, 20 << 20)))


def _become_other(path: Path, draw: random.Random) -> None:
    path.unlink()
    draw.choice(
        (
            lambda: os.mkfifo(path),
            path.mkdir,
            lambda: path.symlink_to("/dev/zero"),
            lambda: path.symlink_to(path),
            lambda: path.symlink_to("/etc/passwd"),
            path.touch,
            lambda: None,
        )
    )()


def _rename(path: Path, draw: random.Random) -> None:
    other = draw.choice(("rank-7.jsonl", "plan.json", "rank-0.jsonl", "rank-0.log", "x\x1b[2J.jsonl", "verdict.json"))
    os.replace(path, path.with_name(other))


def _link_folder(path: Path, draw: random.Random) -> None:
    """Make a link of the folder that a file lies in, if it is one of a run directory's own."""
    folder = path.parent
    if not (folder.name.startswith("attempt-") or folder.name in ("control", "control-again", "reference")):
        return
    moved = folder.with_name(f"{folder.name}.moved")
    os.replace(folder, moved)
    folder.symlink_to(draw.choice((moved, Path("/"), Path("/proc/self"))))


_WAYS = (
    *(_flip, _flip, _cut, _shuffle_lines, _shuffle_lines, _replace_value, _replace_value, _replace_value),
    *(_replace_value, _replace_value, _nest, _grow, _become_other, _rename, _link_folder),
)
