"""Nights of a user's project, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys

from breakrank.memory.reading import read
from support.ground import LEAN, environment

#: The cases of the project: one that comes to something new in the second night, and sound ones.
SOUND = [f"Case('c{number}', 'fake:sound', SURVIVED)" for number in range(3)]
CASES = ", ".join([SOUND[0], "Case('turned', 'fake:{}', SURVIVED)", *SOUND[1:]])


def lay(folder, program="sound"):
    """Write a project with one scenario; `program` is the one that changes."""
    (folder / "mine").mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\nscenario_paths = mine\n")
    cases = CASES.format(program)
    text = f"from breakrank import *\nSCENARIO = Scenario(family='sync', cases=[{cases}])\n"
    (folder / "mine" / "small.py").write_text(text)


def night(folder, *words, kill_at="", more=(), limit_s=240):
    """Run a night; return the finished process."""
    plugins = ["-p", "support.fake_bench", "-p", "support.killed_night", *LEAN]
    surroundings = environment(KILL_NIGHT_AT=kill_at, PYTEST_ADDOPTS=" ".join(plugins))
    named = [] if "--resume" in words else ["--scenario=small"]
    command = [sys.executable, "-m", "breakrank", "nightly", *named, *words, *(["--", *more] if more else [])]
    return subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL
    )


def resumed(folder, moment):
    """Run two nights, kill the second one at a moment and go on with it; return the processes, and what it has."""
    lay(folder)
    assert night(folder).returncode == 0
    lay(folder, "fickle")
    killed = night(folder, kill_at=moment)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    before = [entry.name for entry in read(folder / ".breakrank").entries[2]]
    rest = night(folder, "--resume")
    return before, rest, read(folder / ".breakrank")
