"""Holds the namespaces of a sandbox: one for the bridge, and for each rank its own, with an address and a host name.

It is started as a script (`python -I -S hub.py RANKS KIND…`), with the standard library and the program `ip` alone. The
kinds are those of namespaces(7). The bridge lies in a namespace of its own: next to a Docker daemon the host's firewall
drops what is bridged. Host names are known from the hub alone, which answers for them as a name server does (RFC 1035),
so that names can be lost like everything else on the network.

Without root it takes a user namespace, in which it is root. It says `ready` and the pid of one process for each rank,
or why not, and serves names until it is killed; then these end, too, and with the last of them the namespaces and all
that is in them. Nothing has a name that could be left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
from typing import NoReturn

#: Flags of unshare(2) by the names that /proc/<pid>/ns has for the kinds.
FLAGS = {
    "user": 0x10000000,
    "net": 0x40000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
}
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
#: The bridge's network; rank N has the address `NETWORK.(N+1)`.
NETWORK = "10.77.0"
HUB = f"{NETWORK}.254"
#: Type of a question for an IPv4 address, and the code of an answer that there is no such name.
_A, _NO_SUCH_NAME = 1, 3
_LONGEST_LABEL = 63

_libc = ctypes.CDLL(None, use_errno=True)


def main(ranks: int, kinds: list[str]) -> None:
    """Make the namespaces, say so, and wait."""
    try:
        if "user" in kinds:
            _become_root()
        _check(_libc.unshare(FLAGS["net"]), "a network namespace")
        holders = _fork_holders(ranks, [kind for kind in kinds if kind != "user"])
        _ip(_bridge([pid for pid, _, _ in holders]))
        for _, line, _ in holders:
            os.write(line, b"\n")
        for _, _, answer in holders:
            _read(answer)
        names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        names.bind((HUB, 53))
    except OSError as error:
        print(f"{error.strerror} ({error.filename})" if error.filename else error, flush=True)
        sys.exit(1)
    print("ready", *(pid for pid, _, _ in holders), flush=True)
    known = {host_name(rank): address(rank) for rank in range(ranks)}
    while True:
        # Anybody in the network may ask anything; only a question gets an answer.
        with contextlib.suppress(OSError):
            question, asker = names.recvfrom(512)
            told = answer_name(question, known)
            if told:
                names.sendto(told, asker)


def _become_root() -> None:
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(FLAGS["user"]), "a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _fork_holders(ranks: int, kinds: list[str]) -> list[tuple[int, int, int]]:
    """Return for each rank the pid of the process in its namespaces, a pipe to it, and one from it."""
    holders: list[tuple[int, int, int]] = []
    for rank in range(ranks):
        orders, line = os.pipe()
        answer, said = os.pipe()
        middle = os.fork()
        if middle == 0:
            for descriptor in (line, answer, *(d for _, *ours in holders for d in ours)):
                os.close(descriptor)
            _hold(rank, kinds, orders, said)
        os.close(orders)
        os.close(said)
        os.waitpid(middle, 0)
        holders.append((int(_read(answer)), line, answer))
    return holders


def _hold(rank: int, kinds: list[str], orders: int, said: int) -> NoReturn:
    """Take the namespaces; what is forked then is the first process in them, sets them up, and stays."""
    try:
        _check(_libc.unshare(sum(FLAGS[kind] for kind in kinds)), " and ".join(kinds))
        pid = os.fork()
        if pid:
            os.write(said, f"{pid}\n".encode())
            os._exit(0)
        _furnish(rank, kinds)
        os.read(orders, 1)
        if "net" in kinds:
            _ip(_own_end(rank))
        # Nobody waits for what is orphaned in here.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.write(said, b"\n")
        # The other end is the hub's alone: this returns when it has ended.
        os.read(orders, 1)
    except OSError as error:
        os.write(said, f"{error.strerror} ({error.filename})\n".encode())
    finally:
        os._exit(0)


def _furnish(rank: int, kinds: list[str]) -> None:
    if "uts" in kinds:
        name = host_name(rank).encode()
        _check(_libc.sethostname(name, len(name)), "a host name")
    if "mnt" in kinds:
        _mount("none", "/", None, MS_REC | MS_PRIVATE, "private mounts")
        _tell_names(rank)
    if "pid" in kinds and "mnt" in kinds:
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "a /proc of its own")


def _tell_names(rank: int) -> None:
    """Say whom to ask for names: in files that lie in memory, over those of the machine."""
    files = {
        "/etc/hosts": f"127.0.0.1 localhost\n{address(rank)} {host_name(rank)}\n",
        "/etc/resolv.conf": f"nameserver {HUB}\noptions timeout:1 attempts:1\n",
    }
    _mount("none", "/tmp", "tmpfs", 0, "a place for names")
    for number, (path, text) in enumerate(files.items()):
        scratch = f"/tmp/{number}"
        with open(scratch, "w") as file:
            file.write(text)
        if os.path.exists(path):
            _mount(scratch, path, None, MS_BIND, f"a {path} of its own")
    # The files stay for as long as they are mounted elsewhere.
    _check(_libc.umount2(b"/tmp", MNT_DETACH), "leaving /tmp as it was")


def answer_name(question: bytes, known: dict[str, str]) -> bytes:
    """Return the answer to a question of one name: its address, that there is none of this kind, or no such name.

    Anything else has an empty one.
    """
    labels, place = [], 12
    while place < len(question) and question[place]:
        size = question[place]
        if size > _LONGEST_LABEL:
            return b""
        labels.append(question[place + 1 : place + 1 + size].decode("latin-1").lower())
        place += size + 1
    asked, kind = question[12 : place + 5], int.from_bytes(question[place + 1 : place + 3], "big")
    # An answer is no question: the bit says so. Behind the name come its type and its class.
    if len(question) < place + 5 or question[2] & 0x80 or question[4:6] != b"\0\1":
        return b""
    found = known.get(".".join(labels))
    answer = b""
    if found is not None and kind == _A:
        # The name is the one at byte 12; class IN; nothing is to be kept.
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + bytes(map(int, found.split(".")))
    code = _NO_SUCH_NAME if found is None else 0
    return question[:2] + bytes((0x85, 0x80 | code)) + b"\0\1" + bytes((0, bool(answer), 0, 0, 0, 0)) + asked + answer


def host_name(rank: int) -> str:
    """Return the host name of a rank."""
    return f"rank-{rank}"


def address(rank: int) -> str:
    """Return the address of a rank."""
    return f"{NETWORK}.{rank + 1}"


def _bridge(pids: list[int]) -> str:
    """Return the commands that lay the bridge, and a cable from it to each rank."""
    lines = ["link set lo up", "link add br0 type bridge", f"address add {HUB}/24 dev br0", "link set br0 up"]
    for rank, pid in enumerate(pids):
        lines.append(f"link add {host_name(rank)} type veth peer name eth0 netns {pid}")
        lines.append(f"link set {host_name(rank)} master br0 up")
    return "\n".join(lines)


def _own_end(rank: int) -> str:
    return "\n".join(("link set lo up", f"address add {address(rank)}/24 dev eth0", "link set eth0 up"))


def _ip(commands: str) -> None:
    """Run the program `ip` with these commands. Raises `OSError` with what it says."""
    reader, writer = os.pipe()
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(reader, 0)
        os.dup2(into, 2)
        os.closerange(3, 256)
        try:
            os.execvp("ip", ["ip", "-batch", "-"])
        except OSError as error:
            os.write(2, f"ip: {error.strerror}; apt-get install iproute2".encode())
        finally:
            os._exit(127)
    os.close(reader)
    os.close(into)
    with open(writer, "w") as pipe:
        pipe.write(commands + "\n")
    with open(out) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(0, text.strip().splitlines()[0] if text.strip() else "it said nothing", "ip")


def _read(descriptor: int) -> str:
    """Return a line of a holder's. Raises `OSError` if it says what went wrong."""
    text = b""
    while not text.endswith(b"\n"):
        data = os.read(descriptor, 1024)
        if not data:
            raise OSError(0, "it died", "the process that holds a rank's namespaces")
        text += data
    if text.strip() and not text.strip().isdigit():
        raise OSError(0, text.decode().strip(), None)
    return text.decode().strip()


def _mount(source: str, target: str, kind: str | None, flags: int, what: str) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(_libc.mount(words[0], words[1], words[2], flags, None), what)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
