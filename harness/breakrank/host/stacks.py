"""The stacks of a running Python process, read from outside without stopping it, folded to the user's own frames."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from breakrank.errors import BreakrankError
from breakrank_agent.protocol.frameworks import KnownWait, all_frameworks

#: Reading the stacks of one process takes some 20 ms; a machine that is busy with training needs longer.
_LIMIT_S = 2.0
_NATIVE_LIMIT_S = 10.0
_STANDARD = re.compile(r"/lib(64)?/python\d[\d.]*/|/python\d+\.zip/")
_PACKAGES = re.compile(r"/(site|dist)-packages/")
#: Names of files that no file stands behind, but code that the user typed.
_TYPED = ("<string>", "<stdin>")
#: Packages that come with some frameworks or with none, whose frames are never the user's own either.
_PACKAGES_BESIDE = ("jax", "jaxlib", "flax", "numpy", "ray", "datasets", "tqdm")
_NOT_OWN = (*(package for one in all_frameworks().values() for package in one.packages), *_PACKAGES_BESIDE)
_FRAMEWORKS = re.compile(rf"/(site|dist)-packages/({'|'.join(_NOT_OWN)})/")


@dataclass(frozen=True)
class Frame:
    """One call: the function, its file as the interpreter names it, and the line that it is at.

    `until` is the last line where several looks saw several, else 0.
    """

    function: str
    file: str
    line: int
    until: int = 0

    @property
    def lines(self) -> str:
        """The lines in words: `8`, or `8-9`."""
        return f"{self.line}-{self.until}" if self.until else str(self.line)

    @property
    def where(self) -> str:
        """The file and the lines: `train.py:8`."""
        return f"{os.path.basename(self.file)}:{self.lines}"


@dataclass(frozen=True)
class Wait:
    """The wait of the frames inside of the user's code. `kind` is meeting, backward, other, launcher or helper.

    A *meeting* is complete only when other ranks come to it: a collective, a send or recv, the set-up of a group. A
    *launcher* waits for ranks, a *helper* was started by one.
    """

    kind: str
    name: str


@dataclass(frozen=True)
class Place:
    """The place of a thread: the user's own frames, outermost first, and what is waited for inside of them."""

    frames: tuple[Frame, ...]
    wait: Wait | None = None

    @property
    def where(self) -> str:
        """The innermost of the user's lines: `train.py:8`."""
        return self.frames[-1].where


@dataclass(frozen=True)
class Stack:
    """One thread as it was seen once.

    `main`: it is the main thread; `own`: code of the user is in it; `root` is the file and function that it began in.
    """

    thread: str
    main: bool
    own: bool
    place: Place
    root: tuple[str, str]


_COLLECTIVES = tuple(file for one in all_frameworks().values() for file in one.collectives)
#: Stacks in which one of these is, however deep, belong to no rank: a rank has started them to help it.
_HELPERS = {
    **{call: words for one in all_frameworks().values() for call, words in one.helpers.items()},
    ("multiprocessing/resource_tracker.py", "main"): "multiprocessing's resource tracker",
    ("multiprocessing/forkserver.py", "main"): "multiprocessing's fork server",
    ("multiprocessing/pool.py", "worker"): "a worker of a pool",
    ("concurrent/futures/process.py", "_process_worker"): "a worker of a pool",
}
#: Known waits: the first line that fits one of the frames wins.
_WAITS = (
    *(wait for one in all_frameworks().values() for wait in one.waits),
    KnownWait("/subprocess.py", ("wait", "_wait", "communicate", "_communicate"), "other", "subprocess for a child"),
    KnownWait("multiprocessing/popen_fork.py", ("poll", "wait"), "other", "join for a child process"),
    KnownWait("/queue.py", ("get", "put", "join"), "other", "a queue"),
    KnownWait("multiprocessing/queues.py", ("get", "put", "join"), "other", "a queue between processes"),
    KnownWait("concurrent/futures/_base.py", ("result", "exception", "wait"), "other", "a future"),
    KnownWait("/threading.py", ("join", "_wait_for_tstate_lock"), "other", "join for a thread"),
    KnownWait("/threading.py", ("wait", "wait_for", "acquire"), "other", "a lock or condition"),
    KnownWait("multiprocessing/synchronize.py", ("wait", "wait_for"), "other", "a lock between processes"),
    KnownWait("multiprocessing/connection.py", (), "other", "a pipe"),
    KnownWait("/socket.py", (), "other", "a socket"),
    KnownWait("/ssl.py", (), "other", "a socket"),
    KnownWait("/selectors.py", (), "other", "a socket or pipe"),
    KnownWait("<frozen importlib", ("_find_and_load",), "other", "an import"),
)


def spy() -> str:
    """Return where py-spy is. Raises `BreakrankError` if it is nowhere."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    found = beside if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if found is None:
        raise BreakrankError("py-spy, which reads the stacks, is not installed: pip install py-spy")
    return found


def read_stacks(tool: str, pid: int) -> tuple[list[Stack], str]:
    """Return the stacks of all threads of a process, and why there are none.

    The process is never paused (`--nonblocking`): its memory is read while it runs. Pausing is not free of harm: it
    was seen to make a waiting epoll_wait(2) return EINTR, and a tool that is killed meanwhile may leave its process
    stopped. A thread that stands still is read right all the same; of what moves, some 8 of 100 looks fail or are torn.
    """
    command = [tool, "dump", "--nonblocking", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return [], f"py-spy did not come to an end within {_LIMIT_S:g} s"
    if "Permission Denied" in done.stderr:
        raise BreakrankError(
            f"the kernel keeps the memory of process {pid} from us: start this as root (kernel.yama.ptrace_scope"
            " is above 0), or the container with --cap-add SYS_PTRACE"
        )
    if done.returncode != 0:
        return [], next((line.removeprefix("Error: ") for line in done.stderr.splitlines() if line.strip()), "no word")
    try:
        return parse_stacks(json.loads(done.stdout), pid), ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return [], "py-spy's answer is not understood: another version of it may help (pip install -U py-spy)"


def print_stacks(pids: Sequence[int], native: bool) -> dict[int, str]:
    """Return the stacks of these processes as text, those of C and C++ among them if `native`; without py-spy none.

    Native stacks pause the process and take seconds, most of them for the names in a framework's libraries.
    """
    with contextlib.suppress(BreakrankError):
        how = "--native" if native else "--nonblocking"
        commands = {pid: [spy(), "dump", how, "--pid", str(pid)] for pid in pids}
        limit_s = _NATIVE_LIMIT_S if native else _LIMIT_S
        with ThreadPoolExecutor(max(1, len(pids))) as pool:
            return dict(pool.map(lambda pid: (pid, _printed(commands[pid], limit_s)), pids))
    return {}


def _printed(command: list[str], limit_s: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return ""
    return _without_command(done.stdout) if done.returncode == 0 else ""


def _without_command(text: str) -> str:
    """Return py-spy's text without its first words, the process's command line: it may hold what is secret."""
    starts = list(_INTERPRETER.finditer(text))
    return text[starts[-1].start() :] if starts else text.partition("\n")[2]


def parse_stacks(threads: Sequence[Mapping[str, Any]], pid: int) -> list[Stack]:
    """Fold what `py-spy dump --json` said of a process."""
    seen = [thread for thread in threads if thread["frames"]]
    mains = [t for t in seen if t.get("os_thread_id") == pid or t.get("thread_name") == "MainThread"]
    stacks = []
    for thread in seen:
        frames = [Frame(f["name"], f["filename"], f["line"]) for f in reversed(thread["frames"])]
        name = thread.get("thread_name") or f"thread {thread.get('os_thread_id') or thread['thread_id']}"
        main = thread is (mains or seen)[0]
        own = any(_is_own(frame) for frame in frames)
        stacks.append(Stack(name, main, own, fold(frames), (frames[0].file, frames[0].function)))
    return stacks


#: The line with which py-spy's text goes on after the command line, which may have several lines.
_INTERPRETER = re.compile(r"^Python v\d", re.MULTILINE)

#: Lines of faulthandler: a thread, and a frame.
_DUMPED_THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-f]+)")
_DUMPED_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$')
#: The agent's own frames, which are between the program's and the framework's.
_AGENT = "/breakrank_agent/"


def parse_dump(text: str) -> list[Stack]:
    """Fold what a rank's own faulthandler wrote, asked by a signal: the current thread is the main one."""
    found: list[tuple[str, bool, list[Frame]]] = []
    for line in text.splitlines():
        if thread := _DUMPED_THREAD.match(line):
            found.append((f"thread {thread[2]}", thread[1] == "Current thread", []))
        elif (frame := _DUMPED_FRAME.match(line)) and found and _AGENT not in frame[1]:
            found[-1][2].append(Frame(frame[3], frame[1], int(frame[2])))
    stacks = []
    for name, main, frames in found:
        if frames:
            outermost = frames[::-1]
            root = (outermost[0].file, outermost[0].function)
            stacks.append(Stack(name, main, any(map(_is_own, frames)), fold(outermost), root))
    return stacks


def fold(frames: Sequence[Frame]) -> Place:
    """Return the user's own frames, and what the frames inside of the innermost of them wait for. Outermost first.

    Of a helper only what it does itself is returned: below that a forked one has the frames that its rank was at.
    """
    for i, call in enumerate(map(_call, frames)):
        for (part, function), words in _HELPERS.items():
            if call[1] == function and call[0].endswith(part):
                return Place(fold(frames[i + 1 :]).frames or (frames[i],), Wait("helper", words))
    own = next((chosen for rule in (_is_own, _is_no_framework) if (chosen := [f for f in frames if rule(f)])), [])
    inside = frames[max(i for i, f in enumerate(frames) if f is own[-1]) + 1 :] if own else frames
    return Place(tuple(own or frames[-1:]), _waited_for(inside))


def _is_own(frame: Frame) -> bool:
    if frame.file.startswith("<"):
        return frame.file in _TYPED
    return not _STANDARD.search(frame.file) and not _PACKAGES.search(frame.file)


def _is_no_framework(frame: Frame) -> bool:
    installed = bool(_PACKAGES.search(frame.file)) or not _STANDARD.search(frame.file)
    return installed and not frame.file.startswith("<") and not _FRAMEWORKS.search(frame.file)


def _waited_for(frames: Sequence[Frame]) -> Wait | None:
    """Return what these frames wait for: the collective that the user called, else the first of `_WAITS` that fits."""
    calls = [_call(frame) for frame in frames]
    for file, function in calls:
        if file.endswith(_COLLECTIVES) and not function.startswith("_"):
            return Wait("meeting", function)
    for known in _WAITS:
        if any(known.file in file and (not known.functions or function in known.functions) for file, function in calls):
            return Wait(known.kind, known.name)
    return None


def _call(frame: Frame) -> tuple[str, str]:
    """Return the file and the bare name of the function; Python 3.11 and newer say `Class.method`."""
    return frame.file, frame.function.rsplit(".", 1)[-1]
