"""A warm place to fork ranks from: the framework is imported, nothing was computed, and there is one thread.

`python -m breakrank_agent.start.zygote` reads BREAKRANK_ZYGOTE: `control` is a descriptor (SOCK_SEQPACKET), or with
`listen` the path of a socket that is called once; `framework` is imported, `none` is the agent alone, and empty is for
requests that all name an `argv`. A request is an object with `boot` (as in `breakrank_agent.start.boot`), `env`, `cwd`,
`walls` (a process, or 0, and the kinds of its namespaces that are entered, as flags of setns(2)), `argv` (the command
to execute, cold, instead of a warm rank), and the descriptors that become 0, 1, 2, 3 … of the rank. The answer is
`pid`, as it is called here, or `error`. Each rank is a fresh process that was forked twice, so that it becomes the
child of the nearest subreaper: the supervisor, or, as the first process of a container, this one. A rank waits for one
line on its descriptor 3 before it begins.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
import weakref
from typing import Any, NoReturn

from breakrank_agent.protocol.checked import parse
from breakrank_agent.protocol.entry import PACKET
from breakrank_agent.protocol.frameworks import WARM, profile

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MADV_COLLAPSE = 25
#: The size of a huge page. If it is another one, the kernel rounds.
HUGE = 1 << 21

#: Read by the allocator of pyarrow, which pandas imports, and so Keras, where they are there: it starts no thread then.
_ALLOCATOR, _WITHOUT_THREAD = "JE_ARROW_MALLOC_CONF", "background_thread:false"

#: Ends the process at once, even if a hook has replaced `os._exit`.
_end = os._exit


def main() -> None:
    """Import the framework, say that we are ready, and fork a rank for each request until the owner is gone."""
    spec = json.loads(os.environ["BREAKRANK_ZYGOTE"])
    control = _await_call(spec["listen"]) if "listen" in spec else socket.socket(fileno=spec["control"])
    if spec["framework"]:
        _warm_up(spec["framework"])
    control.send(json.dumps({"ready": _threads()}).encode())
    while True:
        data, ancillary, _, _ = control.recvmsg(PACKET, socket.CMSG_SPACE(16 * 4))
        if not data:
            return
        descriptors = array.array("i")
        for _, _, raw in ancillary:
            descriptors.frombytes(raw)
        control.send(json.dumps(_serve(control, parse(data, PACKET), list(descriptors))).encode())
        for descriptor in descriptors:
            os.close(descriptor)


def _warm_up(framework: str) -> None:
    """Import the modules that a rank which is forked from us needs."""
    # The agent is among it.
    from breakrank_agent import hooks
    from breakrank_agent.faults import all_faults
    from breakrank_agent.schedules import all_policies

    hooks.all_hooks()
    all_faults()
    all_policies()
    beyond = filter(None, os.environ.get(WARM, "").split(","))
    asked = os.environ.get(_ALLOCATOR)
    os.environ[_ALLOCATOR] = ",".join(filter(None, (asked, _WITHOUT_THREAD)))
    for name in ("breakrank_agent.start.boot", *profile(framework).warm, *beyond):
        importlib.import_module(name)
    # It has been read, and a rank finds its environment as it was.
    if asked is None:
        del os.environ[_ALLOCATOR]
    else:
        os.environ[_ALLOCATOR] = asked
    hooks.warm_up()
    _forget_finalizers()
    gc.collect()
    # Collections in the ranks then leave the pages that they share with us alone.
    gc.freeze()
    _gather_memory()


def _await_call(path: str) -> socket.socket:
    """Return the line to the one who calls; below us, in a container, is all that its rank will start."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(1)
        control, _ = listener.accept()
    control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PACKET)
    return control


def _forget_finalizers() -> None:
    """Let no rank run, at its exit, the finalizers that the framework's import has registered.

    Like taking the interpreter apart, it touches every page that a rank shares with us. Finalizers that the program
    registers in the rank itself are run.
    """
    for reference in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        reference.atexit = False


def _gather_memory() -> None:
    """Gather our memory into huge pages: a fork and the end of a rank then handle far fewer of them.

    madvise(2), MADV_COLLAPSE. A kernel before Linux 6.1 refuses; then forks cost some milliseconds more.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        mappings = [line.split(None, 5) for line in file]
    for span, rights, _, _, inode, *_ in mappings:
        start, end = (int(part, 16) for part in span.split("-"))
        first, last = -(-start // HUGE) * HUGE, end // HUGE * HUGE
        if rights == "rw-p" and inode == "0" and first < last:
            madvise(first, last - first, _MADV_COLLAPSE)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _serve(control: socket.socket, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """Fork one rank; return its pid, or why it must not be forked here."""
    if _threads() != 1:
        return {"error": f"the zygote has {_threads()} threads; a fork of it could hang"}
    _reap()
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        _middle(control, request, descriptors, reader, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(middle, 0)
    return {"pid": int(said)} if said.isdigit() else {"error": said or "the fork failed"}


def _reap() -> None:
    """Wait for processes that have ended below us in a container. Until now their exit could be seen."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _middle(
    control: socket.socket, request: dict[str, Any], descriptors: list[int], reader: int, writer: int
) -> NoReturn:
    """Fork the rank, hand its pid on, and leave, so that the supervisor becomes its parent."""
    try:
        _enter(*request["walls"])
        pid = os.fork()
    except OSError as error:
        os.write(writer, str(error).encode())
        os._exit(1)
    if pid:
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.close(reader)
    os.close(writer)
    control.close()
    code, programs = 70, ""
    try:
        _become(request, descriptors)
        if "argv" in request:
            os.execvpe(request["argv"][0], request["argv"], request["env"])
        from breakrank_agent.start import boot

        programs = request["boot"]["programs"] + os.sep
        code = boot.run_here(request["boot"])
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(code, programs)


def _enter(holder: int, kinds: int) -> None:
    """Enter the namespaces of a process, if one is named. A process that is forked next is in all of them.

    setns(2), with a descriptor of the process: since Linux 5.8.
    """
    if not holder:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(os.pidfd_open(holder), kinds) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the walls of the rank cannot be entered: {os.strerror(number)}")


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Take the rank's descriptors, environment and folder, and wait for the word to begin."""
    os.setsid()
    high = [_duplicate(descriptor) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=number < 3 or "argv" in request)
    os.closerange(len(high), 256)
    # The environment of C code, such as gloo's, changes with it.
    for name in set(os.environ) - set(request["env"]):
        del os.environ[name]
    os.environ.update(request["env"])
    # The C library reads the zone once, unless it is told; ours may have been another.
    time.tzset()
    os.chdir(request["cwd"])
    signal.set_wakeup_fd(-1)
    while os.read(3, 1) not in (b"\n", b""):
        pass
    # Now the supervisor is the parent; set any earlier, the end of the process in the middle would have killed us.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _duplicate(descriptor: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 256)


def _leave(code: int, programs: str) -> NoReturn:
    """End as Python would, but without taking the interpreter apart, which costs seconds in a forked process."""
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    _flush()
    with contextlib.suppress(BaseException):
        _finalize(programs)
    _flush()
    with contextlib.suppress(BaseException):
        from breakrank_agent.agent import agent

        agent.take_leave()
    _end(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _finalize(programs: str) -> None:
    """Finalize what nobody holds any more once the modules below `programs` are gone, as Python does.

    Files that were left open are written so, and a finalizer can wait for ever: a function of TensorFlow's has each
    worker forget it. Nothing is freed (gc.DEBUG_SAVEALL; finalizers come first, PEP 442): only native code would see
    it, and take up to seconds for it.
    """
    gone: list[Any] = []
    for name, module in list(sys.modules.items()):
        # A module that is loaded when something of it is asked for is not asked.
        if programs and str(getattr(module, "__dict__", {}).get("__file__")).startswith(programs):
            gone.append(sys.modules.pop(name))
    # A cycle is for the collector to find.
    gone.append(gone)
    del gone, module
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()


if __name__ == "__main__":
    main()
