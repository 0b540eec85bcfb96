"""Hosts that are real as far as one machine has them: networks, processes, mounts, names and clocks of their own.

Each runs sshd. They hang on a switch, as does this machine; of its files, /tmp and /run are their own, but for the
folder that they share. A host is ended by ending its first process.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

#: The first process of a host: it serves logins, and waits for whatever is left below it.
_INIT = """
import os, signal, subprocess, sys
folder, name, hosts, shared, address = sys.argv[1:]
def run(*command): subprocess.run(command, check=True)
if shared:
    os.makedirs("/mnt", exist_ok=True)
    run("mount", "--bind", shared, "/mnt")
run("mount", "-t", "tmpfs", "tmpfs", "/tmp")
if shared:
    os.makedirs(shared, exist_ok=True)
    run("mount", "--move", "/mnt", shared)
run("mount", "-t", "tmpfs", "tmpfs", "/run")
os.makedirs("/run/sshd")
run("mount", "--bind", hosts, "/etc/hosts")
run("mount", "-t", "proc", "proc", "/proc")
run("hostname", name)
sys.stdin.readline()
run("ip", "link", "set", "lo", "up")
run("ip", "addr", "add", address + "/24", "dev", "eth0")
run("ip", "link", "set", "eth0", "up")
subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", folder + "/sshd_config"], stdin=subprocess.DEVNULL)
print("ready", flush=True)
while True:
    try: os.wait()
    except ChildProcessError: signal.pause()
"""


def lacks() -> str:
    """Return why hosts cannot be made here, empty if they can."""
    if os.geteuid() != 0:
        return "only root may make hosts"
    missing = [tool for tool in ("/usr/sbin/sshd", "ssh", "ssh-keygen", "ip", "unshare") if not shutil.which(tool)]
    return f"{missing[0]} is missing" if missing else ""


class Hosts:
    """The hosts by name, with the settings of the ssh that reaches them (`ssh -F config`)."""

    def __init__(self, folder: Path, names: tuple[str, ...], shared: Path | None) -> None:
        self.folder, self.names = folder, names
        self._mark = secrets.token_hex(3)
        self._net = f"10.{100 + secrets.randbelow(100)}.{secrets.randbelow(250)}"
        self._first: dict[str, subprocess.Popen[str]] = {}
        self._switch: subprocess.Popen[bytes] | None = None
        self._write_settings()
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            self._lay_switch()
            for number, name in enumerate(names, 1):
                self._start(name, number, shared)
            stack.pop_all()

    @property
    def config(self) -> Path:
        """The settings of ssh."""
        return self.folder / "ssh_config"

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return f"{self._net}.{self.names.index(name) + 1}"

    def run(self, name: str, command: str) -> str:
        """Run a command on a host, and return what it prints."""
        return subprocess.run(
            ["ssh", "-F", str(self.config), name, command], capture_output=True, text=True, check=True
        ).stdout

    def processes(self, name: str) -> dict[int, str]:
        """Return the processes of a host but for those that a bare one has, by number here, with their commands."""
        first = self._first[name].pid
        space = os.readlink(f"/proc/{first}/ns/pid_for_children")
        found = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/pid") == space:
                    command = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(entry)] = command
        bare = ("sshd", "/usr/sbin/sshd")
        return {pid: c for pid, c in found.items() if c and not c.startswith(bare) and "sshd_config" not in c}

    def ours(self, name: str) -> list[int]:
        """Return the processes of a host that are of a session of ours."""
        found = []
        for pid, command in self.processes(name).items():
            with contextlib.suppress(OSError):
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                found += [pid] if b"BREAKRANK_" in environ or "breakrank" in command else []
        return found

    @contextlib.contextmanager
    def closed(self, name: str) -> Iterator[None]:
        """Let nothing through from a host to this machine but the answers of its sshd."""
        rule = ["OUTPUT", "-d", f"{self._net}.254", "-p", "tcp", "!", "--sport", "22", "-j", "REJECT"]
        self._on(name, "iptables", "-A", *rule)
        try:
            yield
        finally:
            self._on(name, "iptables", "-D", *rule)

    def _on(self, name: str, *command: str) -> None:
        subprocess.run(["nsenter", "--target", str(self._first[name].pid), "--net", *command], check=True)

    def files(self, name: str) -> list[str]:
        """Return the names of what lies in /tmp of a host."""
        (first,) = (pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_first(name, pid))
        return sorted(entry for entry in os.listdir(f"/proc/{first}/root/tmp") if entry.startswith("breakrank"))

    def cut(self, name: str, up: bool = False) -> None:
        """Pull the cable of a host, or plug it in."""
        self._in_switch("ip", "link", "set", f"p{self.names.index(name) + 1}", "up" if up else "down")

    def power_off(self, name: str) -> None:
        """End a host at once, with all that runs there."""
        self._first[name].kill()
        self._first[name].wait()

    def close(self) -> None:
        """End all of them."""
        for first in self._first.values():
            first.kill()
            first.wait()
        if self._switch is not None:
            self._switch.kill()
            self._switch.wait()

    def _is_first(self, name: str, pid: int) -> bool:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return int(stat[1]) == self._first[name].pid
        return False

    def _write_settings(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key)], check=True)
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/user_key.pub\nStrictModes no\n"
            "UsePAM no\nPermitRootLogin yes\nPidFile none\nUseDNS no\nMaxStartups 100\n"
        )
        lines = [f"{self.address(name)} {name}" for name in self.names]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        named = [(name, name) for name in self.names] + [("alias", self.names[0])]
        entries = "".join(f"Host {name}\n  HostName {self.address(host)}\n" for name, host in named)
        self.config.write_text(
            f"{entries}Host *\n  User root\n  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
            "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        )

    def _lay_switch(self) -> None:
        self._switch = subprocess.Popen(["unshare", "--net", "--kill-child", "sleep", "infinity"])
        _await(lambda: os.readlink(f"/proc/{self._switch.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        self._in_switch("ip", "link", "add", "br0", "type", "bridge")
        self._in_switch("ip", "link", "set", "br0", "up")
        self._plug("p0", f"bk{self._mark}", 0)
        _ip("addr", "add", f"{self._net}.254/24", "dev", f"bk{self._mark}")
        _ip("link", "set", f"bk{self._mark}", "up")

    def _plug(self, port: str, name: str, where: int) -> None:
        """Lay a cable from a port of the switch to a process's network, or to ours."""
        there = ["netns", str(where)] if where else []
        made = f"bp{self._mark}"
        _ip("link", "add", made, "type", "veth", "peer", "name", name, *there)
        _ip("link", "set", made, "netns", str(self._switch.pid), "name", port)
        self._in_switch("ip", "link", "set", port, "master", "br0")
        self._in_switch("ip", "link", "set", port, "up")

    def _in_switch(self, *command: str) -> None:
        subprocess.run(["nsenter", "--target", str(self._switch.pid), "--net", *command], check=True)

    def _start(self, name: str, number: int, shared: Path | None) -> None:
        spaces = ["--net", "--pid", "--mount", "--uts", "--ipc", "--time", "--monotonic", str(3600 * number)]
        python = ["python3", "-I", "-c", _INIT, str(self.folder), name, str(self.folder / "hosts")]
        self._first[name] = subprocess.Popen(
            ["unshare", *spaces, "--fork", "--kill-child", *python, str(shared or ""), self.address(name)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(self.folder / f"{name}.log").open("w"), text=True,
        )  # fmt: skip
        first = self._first[name]
        _await(lambda: os.readlink(f"/proc/{first.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        self._plug(f"p{number}", "eth0", first.pid)
        first.stdin.write("go\n")
        first.stdin.flush()
        assert first.stdout.readline().strip() == "ready", (self.folder / f"{name}.log").read_text()


@contextlib.contextmanager
def hosts(folder: Path, names: tuple[str, ...] = ("one", "two"), shared: Path | None = None) -> Iterator[Hosts]:
    """Make hosts, and end them."""
    made = Hosts(folder, names, shared)
    try:
        yield made
    finally:
        made.close()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _await(holds: object) -> None:
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def end(pid: int) -> None:
    """Kill a process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
