"""The doctor says what this machine has and lacks, each lack with its cure."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from breakrank.errors import BreakrankError
from breakrank.host.cgroup_files import CONTROLLERS, mounts
from breakrank.host.gdb import no_debugger
from breakrank.host.slurm_jobs import no_hosts, no_operator, no_preemption, no_slurm
from breakrank.runners import PLAIN, cgroups, find_runner
from breakrank.runners.docker import endpoint
from breakrank_agent.faults import all_faults
from breakrank_agent.kernel.ptrace import let_anybody_trace
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.frameworks import PACKAGES, all_frameworks, distributions, profile

#: About what one rank with its framework takes; a rank of torch on a CPU was seen at 180 MB.
_RANK_BYTES = 256 * 2**20
#: More ranks than this on one machine say nothing that fewer do not.
_MOST_RANKS = 64
_SHM_ENOUGH = 64 * 2**20


@dataclass(frozen=True)
class Check:
    """One thing a machine may have: what was found, and the cure if it lacks (empty: all is well)."""

    name: str
    found: str
    cure: str = ""


def missing_framework(name: str, runner: str = PLAIN, image: str = "") -> str:
    """Return why ranks cannot use a framework, with the cure, or the empty string. It is looked up, never imported.

    Ranks in an image use those of the image. Raises `BreakrankError` for the image.
    """
    inside = find_runner(runner).lacks_framework(name, image)
    if inside is not None:
        return inside
    if name in ("", "none") or _installed(name):
        return ""
    return f"{name} is not installed for this interpreter ({sys.executable}): {profile(name).cure}"


@functools.cache
def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def most_ranks() -> int:
    """Return how many ranks this machine bears."""
    return max(2, min(_MOST_RANKS, psutil.virtual_memory().total // _RANK_BYTES))


def capabilities() -> dict[str, str]:
    """Return every capability by name: the empty string if it is there, else the reason and the cure."""
    return {name: _lack(name) for name in _checks()}


def _checks() -> dict[str, Callable[[], str]]:
    """Return for each capability what finds out why it is not there; some of them start a process to see."""
    return {
        "ptrace": _ptrace,
        "strace": _strace,
        "seccomp": _seccomp,
        "clock": _clock,
        "pageout": _pageout,
        "pidfd": _pidfd,
        "namespaces": _namespaces,
        "netns": _netns,
        "nft": _nft,
        "tbf": _tbf,
        "tun": _tun,
        **{f"{controller} cgroup": functools.partial(cgroups.why_not, controller) for controller in CONTROLLERS},
        "docker": _docker,
        "slurm": no_slurm,
        "slurm operator": no_operator,
        "slurm preemption": no_preemption,
        "slurm hosts": no_hosts,
        "debugger": no_debugger,
        "compiler": _compiler,
        "cuda": _cuda,
    }


@functools.cache
def _lack(name: str) -> str:
    """Return why a capability is not there, or the empty string; it is found out once."""
    return _checks()[name]()


def missing(needs: Iterable[str], runner: str = PLAIN, image: str = "") -> str:
    """Return why the first of `needs` that this machine lacks is not there, or the empty string.

    A program that ranks start has to be in their image, if they have one. Raises `BreakrankError` for the image.
    """
    for need in needs:
        inside = find_runner(runner).lacks_program(need, image)
        reason = _missing(need) if inside is None else inside
        if reason:
            return f"needs {need}: {reason}"
    return ""


def missing_for(plan: Plan, needs: Iterable[str] = ()) -> str:
    """Return why the first thing that a case needs, or its plan, is not there, or the empty string.

    Raises `BreakrankError` for the image.
    """
    struck = (need for strike in plan.strikes for need in strike.fault.needs)
    return missing([*needs, *find_runner(plan.runner).needs, *struck], plan.runner, plan.image)


def _missing(need: str) -> str:
    if need in all_frameworks() or need in PACKAGES:
        return missing_framework(need)
    gpus = re.fullmatch(r"gpus(?:>=|≥)(\d+)", need)
    if gpus:
        there = _gpus()
        return "" if there >= int(gpus[1]) else f"this machine has {there} NVIDIA GPUs; run on one with {gpus[1]}"
    return _lack(need) if need in _checks() else "Breakrank knows no such capability; correct the scenario's needs"


def _ptrace() -> str:
    """Yama's scopes: 0 any process of the user, 1 only children (enough for us), 2 an administrator, 3 nobody."""
    scope = _read("/proc/sys/kernel/yama/ptrace_scope")
    if scope in ("", "0", "1") or os.geteuid() == 0:
        return ""
    return f"ptrace is restricted (ptrace_scope {scope}); sysctl kernel.yama.ptrace_scope=1"


def _clock() -> str:
    """Return why no process can be given another time of day: one is."""
    import subprocess

    from breakrank_agent.kernel import vdso

    # The file alone: what else is in its folder has names of the standard library.
    script = "import runpy, sys, time; t = time.time(); runpy.run_path(sys.argv[1])['shift_wall_clock'](9000)"
    command = [sys.executable, "-I", "-S", "-c", f"{script}; sys.exit(time.time() < t + 9000)", vdso.__file__]
    tried = subprocess.run(command, capture_output=True, text=True)
    if tried.returncode == 0:
        return ""
    said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
    return f"the vDSO cannot be changed ({said}); use x86-64, and a kernel without CONFIG_MSEAL_SYSTEM_MAPPINGS"


def _pageout() -> str:
    """Return why a process's memory cannot be taken away: Linux does it since 5.10, for whoever has CAP_SYS_NICE."""
    import subprocess

    from breakrank_agent.faults.memory import page_out

    with subprocess.Popen(["sleep", "10"], preexec_fn=let_anybody_trace) as process:
        try:
            page_out(process.pid)
        except (OSError, AttributeError) as error:
            return f"it is refused ({error}); use Linux 5.10 or later, as root or with --cap-add=SYS_NICE"
        finally:
            process.kill()
    return ""


def _strace() -> str:
    """Return why no system call can be made to fail: a process is traced, as a rank would be."""
    import subprocess

    if shutil.which("strace") is None:
        return "there is no program strace on the path; apt-get install strace"
    with subprocess.Popen(["sleep", "10"], preexec_fn=let_anybody_trace) as traced:
        with subprocess.Popen(["strace", "-p", str(traced.pid)], stderr=subprocess.PIPE, text=True) as tried:
            said = tried.stderr.readline().strip() if tried.stderr is not None else ""
            tried.terminate()
        traced.kill()
    if said.endswith("attached"):
        return ""
    cure = "sysctl kernel.yama.ptrace_scope=1, or start the container with --cap-add=SYS_PTRACE"
    return f"{said or 'strace died'}; {cure}"


def _seccomp() -> str:
    """Return why the writes of a process cannot be watched."""
    from breakrank_agent.kernel.seccomp import why_not

    return why_not()


def _pidfd() -> str:
    """Return why pidfd_getfd(2) cannot be used: Linux has it since 5.6, and containers often forbid it."""
    from breakrank_agent.kernel.pidfd import duplicate

    with socket.socket() as one:
        try:
            duplicate(os.getpid(), one.fileno()).close()
        except (OSError, AttributeError) as error:
            return f"pidfd_getfd is refused ({error}); use Linux 5.6 or later, in a container with --cap-add=SYS_PTRACE"
    return ""


def _namespaces() -> str:
    if _read("/proc/sys/user/max_user_namespaces") == "0":
        return "user namespaces are off; sysctl user.max_user_namespaces=15000"
    if _read("/proc/sys/kernel/unprivileged_userns_clone") == "0" and os.geteuid() != 0:
        return "user namespaces are for root only; sysctl kernel.unprivileged_userns_clone=1"
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" and os.geteuid() != 0:
        return "AppArmor restricts user namespaces; sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    return _tried_namespace()


def _tried_namespace() -> str:
    """Return why a child cannot enter a user namespace: containers often forbid it where every setting allows it."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return "" if os.path.exists("/proc/self/ns/user") else "the kernel has no user namespaces; use another kernel"
    import subprocess

    tried = subprocess.run([unshare, "-Ur", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return "" if tried.returncode == 0 else "they are forbidden here; start the container with their syscalls allowed"


def _netns() -> str:
    """Return why ranks cannot have namespaces of their own: those of one rank are made, and removed again."""
    for program, package in (("ip", "iproute2"), ("ss", "iproute2"), ("nsenter", "util-linux")):
        if _which(program) is None:
            return f"there is no program {program}; apt-get install {package}"
    refused = "" if os.geteuid() == 0 else _namespaces()
    return refused or _tried_walls()


def _tried_walls() -> str:
    import subprocess

    from breakrank.runners import bridge, namespaces

    command = [sys.executable, "-I", "-S", bridge.__file__, "1", *namespaces.kinds_here()]
    with subprocess.Popen(command, env={"PATH": namespaces.program_path()}, stdout=subprocess.PIPE, text=True) as tried:
        said = tried.stdout.readline().strip() if tried.stdout is not None else ""
        tried.kill()
    if said.startswith("ready"):
        return ""
    return f"they are refused ({said or 'it died'}); start the container with --cap-add=NET_ADMIN --cap-add=SYS_ADMIN"


def _nft() -> str:
    if _which("nft") is None:
        return "there is no program nft; apt-get install nftables"
    return _tried("nft", "add", "table", "inet", "breakrank")


def _tbf() -> str:
    tbf = ("root", "tbf", "rate", "1mbit", "burst", "16kb", "limit", "1mb")
    return _tried("tc", "qdisc", "add", "dev", "lo", *tbf)


def _tun() -> str:
    """Return why no wire of ours can be laid: it takes a device of ours, and a redirection of the kernel's to it."""
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun; modprobe tun, or start the container with --device=/dev/net/tun"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is not for us; as root: chmod 666 /dev/net/tun"
    return _tried("tc", "qdisc", "add", "dev", "lo", "clsact")


def _which(program: str) -> str | None:
    from breakrank.runners.namespaces import program_path

    return shutil.which(program, path=program_path())


def _tried(program: str, *arguments: str) -> str:
    """Return why a program cannot do something in a network of its own; nothing outside of that is touched."""
    import subprocess

    flags = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *flags, "--net", _which(program) or program, *arguments]
    try:
        tried = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return f"it cannot be tried ({error}); apt-get install util-linux"
    if tried.returncode == 0:
        return ""
    said = (tried.stderr.strip().splitlines() or ["it said nothing"])[0]
    return f"the kernel refuses ({said}); use another kernel, or another machine"


def cgroup_version() -> str:
    """Return `2`, `1`, `1 and 2` or `none`: which hierarchies are mounted."""
    return " and ".join(sorted({str(mount.version) for mount in mounts(Path("/"))})) or "none"


def _docker() -> str:
    """Ask the daemon's socket alone: the docker package is only for the runner."""
    try:
        path = endpoint.address()
    except BreakrankError as error:
        return str(error)
    if not path.startswith("unix://"):
        return ""
    path = path[len("unix://") :]
    if not os.path.exists(path):
        cure = endpoint.cure("start Docker (in a clone, as root: make docker), or set DOCKER_HOST")
        return f"no Docker daemon at {path}; {cure}"
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(path)
        except OSError as error:
            cure = endpoint.cure("start it, or join the group docker")
            return f"the Docker daemon at {path} does not answer ({error.strerror}); {cure}"
    return ""


def _compiler() -> str:
    return "" if shutil.which("cc") else "there is no C compiler (cc) on the path; apt-get install gcc libc6-dev"


def _gpus() -> int:
    folder = Path("/proc/driver/nvidia/gpus")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def _cuda() -> str:
    return "" if _gpus() else "no NVIDIA driver is loaded (/proc/driver/nvidia/gpus); run on a machine with a GPU"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def examine() -> list[Check]:
    """Return everything that is worth knowing about this machine."""
    return [
        Check("python", f"{sys.version.split()[0]} at {sys.executable}"),
        *(_framework_check(name) for name in all_frameworks()),
        Check("cores", str(os.cpu_count())),
        Check("memory", _size(psutil.virtual_memory().total), "" if most_ranks() > 2 else "use a machine with 2 GB"),
        Check("most ranks", str(most_ranks())),
        _shm_check(),
        Check("cgroup version", cgroup_version()),
        *(Check(n, "no", f"{why}{_needed_by(n)}") if why else Check(n, "yes") for n, why in capabilities().items()),
    ]


def _needed_by(capability: str) -> str:
    """Say which faults cannot strike without a capability."""
    names = [name for name, kind in all_faults().items() if capability in kind.needs]
    return f"; without it there is no {', '.join(names)}" if names else ""


def _framework_check(name: str) -> Check:
    lack = missing_framework(name)
    if lack:
        return Check(name, "no", lack)
    for distribution in distributions(name):
        try:
            return Check(name, importlib.metadata.version(distribution))
        except importlib.metadata.PackageNotFoundError:
            continue
    return Check(name, "yes")


def _shm_check() -> Check:
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return Check("/dev/shm", "no", "mount a tmpfs at /dev/shm; a container gets one by default")
    size = status.f_frsize * status.f_blocks
    return Check("/dev/shm", _size(size), "" if size >= _SHM_ENOUGH else "start the container with --shm-size=1g")


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.0f} MB"


def report() -> str:
    """Return the examination as text, after sweeping what dead sessions left behind."""
    left = "leftovers"
    checks = examine()
    width = max(len(left), *(len(check.name) for check in checks))
    lines = [f"{c.name:<{width}}  {c.found}{f'  ({c.cure})' if c.cure else ''}" for c in checks]
    return "\n".join([*lines, f"{left:<{width}}  {swept()}"]) + "\n"


def swept() -> str:
    """Sweep what dead sessions left behind, and say what that was."""
    from breakrank.host.session import sweep

    processes, groups = sweep(), cgroups.sweep()
    if not processes and not groups:
        return "none of dead sessions"
    return f"{processes} processes, and the control groups of {groups} sessions whose pytest is dead, were removed"
