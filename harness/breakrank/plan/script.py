"""A user's own script or command: the command line that is executed, and its errors before anything starts."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank_agent.protocol.frameworks import DEFAULT, all_frameworks
from breakrank_agent.protocol.identity import is_launcher

#: Launchers with an option for the folder in which the ranks run.
_MAY_CHANGE_FOLDER = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun")


def is_script(command: Sequence[str]) -> bool:
    """Return whether `command` is a Python script, whose ranks we start; anything else starts its ranks itself."""
    return bool(command) and command[0].endswith(".py")


def run_by_python(command: Sequence[str]) -> str:
    """Return what `python [options] train.py …` or `python -m train …` runs, empty for any other command.

    Such a command runs as it is, once. Its ranks are the processes that it starts, or there are none.
    """
    words = iter(command)
    if not _is_python(next(words, "")) or is_launcher(command):
        return ""
    for word in words:
        if word in ("-X", "-W"):
            next(words, "")
        elif not word.startswith("-"):
            return word
        elif re.fullmatch("-[A-VY-Za-z]*m", word):
            return f"-m {next(words, '')}"
        elif re.fullmatch("-[A-VY-Za-z]*c", word):
            return ""
    return ""


def rank_cure(command: Sequence[str], started_here: bool = True) -> str:
    """Return the advice for a command that finds no RANK as it is run by hand, empty for any other.

    With `started_here`, ranks of a script that is named alone are started here.
    """
    what = run_by_python(command)
    if not what:
        return ""
    alone = f"name it without '{command[0]}', as in '{what}', to have its ranks started, or "
    return f"{alone if started_here and what.endswith('.py') else ''}use 'torchrun --nproc-per-node=2 {what}'"


def title(command: Sequence[str]) -> str:
    """Return a short name: that of the script, else of the program."""
    return Path(next((word for word in command if word.endswith(".py")), command[0])).name


def command_line(command: Sequence[str], folder: Path | None = None) -> list[str]:
    """Return what is executed: `train.py …` runs in this interpreter, all else as it is.

    Programs are looked for beside this interpreter, then on the PATH; those with a slash in `folder`, which they run
    in. One that the PATH leads to is left in the user's own words: Open MPI, for one, acts otherwise when called by its
    whole path. Raises `BreakrankError` for what is neither a Python script nor a program.
    """
    if is_script(command):
        return [sys.executable, *command]
    program = command[0]
    if os.sep in program:
        found = program if os.access((folder or Path()) / program, os.X_OK) or folder is None else None
    else:
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
        found = shutil.which(program, path=path)
        if found is not None and found == shutil.which(program):
            found = program
    if found is None or (_is_python(program) and len(command) == 1):
        raise BreakrankError(
            f"'{' '.join(command)}' is neither a Python script nor a program that is found here; name one, as in "
            "'train.py --epochs 2' or 'torchrun --nproc-per-node=2 train.py'"
        )
    return [found, *command[1:]]


def check_script(command: Sequence[str], folder: Path) -> None:
    """Raise `BreakrankError`, in one line, if the script or program of `command` is not there or is no Python."""
    command_line(command, folder)
    script = command[0] if is_script(command) else _launched(command)
    path = folder / script
    if script and not path.is_file():
        raise BreakrankError(f"there is no {script}" + ("" if os.path.isabs(script) else f" in {folder}"))
    if not is_script(command):
        return
    try:
        compile(path.read_bytes(), script, "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{script}, line {line}" if line else script
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise BreakrankError(f"{where} is no Python {version}: {error.args[0]}") from None


def framework_of(command: Sequence[str], folder: Path) -> str:
    """Return the framework that the script of a command imports: the default one, if it imports that as well or none.

    It decides what the ranks find in their environment. The imports of a module of the script's are not looked at.
    """
    script = next((folder / word for word in command if word.endswith(".py") and not word.startswith("-")), None)
    imported: set[str] = set()
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(script.read_bytes() if script is not None else b"")):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    return next((name for name in all_frameworks() if name in imported), DEFAULT)


def check_step(step: str, command: Sequence[str], folder: Path) -> None:
    """Raise `BreakrankError` if `step` is no `module:function`, or a file of the folder has no such function."""
    if not re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*(\.[^\W\d]\w*)*", step):
        raise BreakrankError("give the function whose return ends a step, as in train:train_batch")
    module, _, function = step.partition(":")
    script = next((folder / word for word in command if word.endswith(".py")), None)
    own = script is not None and module in ("__main__", script.stem)
    path = script if own and script is not None else folder / f"{module.replace('.', os.sep)}.py"
    # A module that is installed elsewhere is seen when the script imports it.
    name = function.rpartition(".")[2]
    if path.is_file() and not re.search(rf"\b{name}\b", path.read_text(errors="replace")):
        raise BreakrankError(f"{path.name} has no function {function}")


def _launched(command: Sequence[str]) -> str:
    """Return the script that a launcher starts in the folder that it is started in; empty if that is not known."""
    script = run_by_python(command)
    if script.endswith(".py"):
        return script
    if not is_launcher(command) or Path(command[0]).name in _MAY_CHANGE_FOLDER:
        return ""
    return next((word for word in command if word.endswith(".py") and not word.startswith("-")), "")


def _is_python(program: str) -> bool:
    return re.fullmatch(r"python(\d+(\.\d+)?)?", Path(program).name) is not None
