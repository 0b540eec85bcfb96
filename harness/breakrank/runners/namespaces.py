"""The namespaces of one rank, and operations in them from outside.

Everything here works on a process that holds the namespaces, whoever made them: a sandbox's own, or a container's. The
programs that do it (`ip`, `tc`, `nft`) are the machine's, entered by nsenter(1); nothing need be installed inside.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.host.session import Session
from breakrank.runners import bridge
from breakrank_agent.kernel.rooted import mount_of, open_root, opened, path_in, resolve, shown
from breakrank_agent.protocol.target import REMOUNT

#: Kinds of namespaces that a sandbox gives each rank (namespaces(7)).
KINDS = ("net", "uts", "ipc", "mnt", "pid")
#: Their options of nsenter(1).
_OPTIONS = {"net": "--net", "uts": "--uts", "ipc": "--ipc", "mnt": "--mount", "pid": "--pid"}
#: Opens a socket where it runs, and hands it to whoever started it.
_OPEN = (
    "import socket, sys\n"
    "opened = socket.socket(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))\n"
    "socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b'.'], [opened.fileno()])\n"
)
#: Enters the mounts of a process, and its user namespace first where that is another one, and changes them (mount(2)).
#: An open file is named by its number, from the folder of our own descriptors: a name could be swapped meanwhile.
_MOUNT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid, kinds, work, source, target, kind, flags, options = sys.argv[1:]
ours = os.open("/proc/self/fd", os.O_PATH)
inside = [os.open(f"/proc/{pid}/ns/{one}", os.O_RDONLY) for one in kinds.split()]
done = next(filter(None, (libc.setns(one, 0) for one in inside)), 0)
if not done:
    os.fchdir(ours)
if not done and work == "unmount":
    done = libc.umount2(target.encode(), 2)  # MNT_DETACH
elif not done:
    words = [word.encode() if word else None for word in (source, target, kind)]
    done = libc.mount(*words, ctypes.c_ulong(int(flags)), options.encode() or None)
sys.exit(os.strerror(ctypes.get_errno()) if done else 0)
"""


@dataclass
class Walls:
    """The namespaces of one rank. `pid` is a process that is in those of `kinds` for as long as they stand.

    `kinds` holds `user`, too, where the others belong to a user namespace. `address` and `host` are the rank's own,
    `mounts` the numbers of the mounts that we have put up in there.
    """

    pid: int
    kinds: tuple[str, ...]
    address: str
    host: str
    mounts: set[int] = field(default_factory=set)
    _datagrams: socket.socket | None = None

    def flags(self, *inside: str) -> int:
        """Return the kinds as setns(2) takes them: all, or those `inside`, and the user's where there is one."""
        return sum(bridge.FLAGS[kind] for kind in self.kinds if not inside or kind in ("user", *inside))

    def run(self, *command: str, text: str = "", inside: tuple[str, ...] = ("net",)) -> str:
        """Run a program in the namespaces `inside` and return what it prints.

        `text` is its standard input. Raises `OSError` with what the program says if it fails, or is not there.
        """
        env = {**os.environ, "PATH": program_path()}
        done = subprocess.run([*self._entering(inside), *command], input=text, capture_output=True, text=True, env=env)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
            raise OSError(f"{' '.join(command)}: {said[0]}")
        return done.stdout

    def open_socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """Return a socket that is in the network of these namespaces. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            wanted = [str(int(number)) for number in (theirs.fileno(), family, kind, protocol)]
            command = [*self._entering(("net",)), sys.executable, "-I", "-S", "-c", _OPEN, *wanted]
            done = subprocess.run(command, capture_output=True, text=True, pass_fds=[theirs.fileno()])
            if done.returncode != 0:
                raise OSError((done.stderr.strip().splitlines() or ["no socket"])[-1])
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        return socket.socket(fileno=descriptors[0])

    def mount(self, source: str | int, target: int, kind: str = "", flags: int = 0, options: str = "") -> int:
        """Mount something over an open file or folder in the mount namespace.

        Return a descriptor of what is seen there now. Raises `OSError`.
        """
        self._change_mounts("mount", target, source, kind, str(flags), options)
        with opened(open_root(self.pid)) as root:
            path = path_in(root, target)
            mounted = resolve(root, path, links=False)
        if mount_of(mounted) == mount_of(target):
            os.close(mounted)
            raise OSError(f"{shown(path)} was moved while something was mounted over it")
        self.mounts.add(mount_of(mounted))
        return mounted

    def remount(self, mounted: int, flags: int = 0, options: str = "") -> None:
        """Change what was mounted. Raises `OSError`."""
        self._change_mounts("mount", mounted, "", "", str(flags | REMOUNT), options)

    def unmount(self, mounted: int) -> None:
        """Take away what was mounted, for whoever looks anew. Raises `OSError`."""
        self._change_mounts("unmount", mounted, "", "", "0", "")
        self.mounts.discard(mount_of(mounted))

    def _change_mounts(self, work: str, target: int, source: str | int, *how: str) -> None:
        kinds = " ".join(kind for kind in ("user", "mnt") if kind in self.kinds)
        what = [str(self.pid), kinds, work, str(source), str(target), *how]
        handed = [target, *([source] if isinstance(source, int) else [])]
        command = [sys.executable, "-I", "-S", "-c", _MOUNT, *what]
        done = subprocess.run(command, capture_output=True, text=True, pass_fds=handed)
        if done.returncode != 0:
            path = shown(os.readlink(f"/proc/self/fd/{target}"))
            raise OSError(f"{work} {path}: {(done.stderr.strip().splitlines() or ['it died'])[-1]}")

    def disconnect(self) -> None:
        """Take the rank off its network, which only the engine of a container can. Raises `OSError`."""
        raise OSError("nothing but a container can be taken off its network; use --scenario-runner=docker")

    def connect(self) -> None:
        """Put the rank on its network again. Raises `OSError`."""
        raise OSError("nothing but a container can be put on its network; use --scenario-runner=docker")

    def is_connected(self) -> bool:
        """Return whether the rank is on its network: always, where nobody can take it off."""
        return True

    def datagrams(self) -> socket.socket:
        """Return a socket for datagrams at the rank's address, opened once. Raises `OSError`."""
        if self._datagrams is None:
            self._datagrams = self.open_socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._datagrams.bind((self.address, 0))
            self._datagrams.setblocking(False)
        return self._datagrams

    def close(self) -> None:
        """Give back what was opened; the namespaces themselves stand."""
        if self._datagrams is not None:
            self._datagrams.close()
            self._datagrams = None

    def _entering(self, inside: tuple[str, ...]) -> list[str]:
        user = ["--user", "--preserve-credentials"] if "user" in self.kinds else []
        return ["nsenter", "--target", str(self.pid), *user, *(_OPTIONS[k] for k in inside if k in self.kinds)]


def program_path() -> str:
    """Return where programs are looked for: `ip`, `tc` and `nft` lie where not everybody's path leads."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def kinds_here() -> tuple[str, ...]:
    """Return the kinds that a sandbox has here: without root, all others belong to a user namespace."""
    return KINDS if os.geteuid() == 0 else ("user", *KINDS)


def raise_walls(session: Session, ranks: int, view: int = 0) -> tuple[int, list[Walls]]:
    """Make namespaces for each rank, and a bridge between them; return the pid that holds them all, and the namespaces.

    They stand until that process is killed. The mounts in them are those of the process `view`, if one is named, else
    the machine's. Raises `BreakrankError` where the machine refuses.
    """
    kinds = kinds_here()
    reader, writer = os.pipe()
    try:
        null = os.open(os.devnull, os.O_RDWR)
        command = [sys.executable, "-I", "-S", bridge.__file__, str(ranks), *kinds]
        pid = session.spawn(command, {"PATH": program_path()}, Path("/"), [null, writer, null], view)
        os.close(null)
    finally:
        os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.readline().strip()
    word, _, numbers = said.partition(" ")
    if word != "ready":
        raise BreakrankError(f"no sandbox can be made here: {said or 'the process that holds it died'}; see the doctor")
    holders = [int(number) for number in numbers.split()]
    session.kept.update((pid, *holders))
    return pid, [Walls(one, kinds, bridge.address(rank), bridge.host_name(rank)) for rank, one in enumerate(holders)]
