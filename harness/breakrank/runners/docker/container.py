"""One container: its first process, the line to its zygote, and who its processes run as."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import docker
import psutil
from docker.errors import NotFound

from breakrank.errors import BreakrankError
from breakrank.host.session import kill_all
from breakrank.host.supervisor import descendants, is_running
from breakrank.runners.docker import untrusted
from breakrank.runners.docker.engine import engine, refusals
from breakrank.runners.docker.namespaces import inner_pid
from breakrank.runners.namespaces import Walls
from breakrank.runners.zygotes import ANSWER_S
from breakrank_agent.protocol.entry import PACKET

#: Variables that an engine sets if an image does not, as `docker run` does.
_ADDED = ("PATH", "HOME", "HOSTNAME")
#: Seconds for the processes of a container to be gone once they are killed. A limit, not a trigger.
_GONE_S = 5.0


@dataclass
class Container:
    """One container: the engine's handle, its first process as it is seen from here, and the line to its zygote."""

    handle: docker.models.containers.Container
    pid: int
    address: str
    host: str
    control: socket.socket
    network: str = ""
    #: Variables that the engine adds to the environment of a process in it.
    given: Mapping[str, str] = field(default_factory=dict)
    #: True if it was off its network for a while: the engine then gives it another interface than it was made with.
    worn: bool = False

    def ask(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Have a rank started; return its pid as it is seen from here. Raises `BreakrankError`."""
        try:
            socket.send_fds(self.control, [json.dumps(request).encode()], list(descriptors))
            answer = untrusted.answer(self.control.recv(PACKET))
        except OSError as error:
            answer = {"error": str(error)}
        if "pid" not in answer:
            raise BreakrankError(f"no rank could be started in the container {self.host}: {answer['error']}")
        for pid in descendants(self.pid):
            if inner_pid(pid) == answer["pid"]:
                return pid
        raise BreakrankError(f"the rank in the container {self.host} ended before it began")

    def clear(self) -> None:
        """End every process in the container but the first."""
        kill_all(lambda: [pid for pid in descendants(self.pid) if is_running(pid)], _GONE_S)


@dataclass
class ContainerWalls(Walls):
    """The namespaces of a container, which its engine can take off its network."""

    container: Container | None = None

    def disconnect(self) -> None:
        """Take the container off its network. Raises `OSError` with what the engine says."""
        assert self.container is not None
        self.container.worn = True
        with refusals():
            engine().networks.get(self.container.network).disconnect(self.container.handle)

    def connect(self) -> None:
        """Put it on again, with the interface and the address that it had. Raises `OSError`."""
        assert self.container is not None
        with refusals():
            engine().networks.get(self.container.network).connect(self.container.handle)
        # The engine gives it the next name and an address that is free.
        (given,) = (link for link in json.loads(self.run("ip", "-j", "-4", "address")) if link["ifname"] != "lo")
        name, prefix = given["ifname"], given["addr_info"][0]["prefixlen"]
        self.run("ip", "link", "set", name, "down")
        self.run("ip", "address", "flush", "dev", name)
        self.run("ip", "link", "set", name, "name", "eth0")
        self.run("ip", "address", "add", f"{self.address}/{prefix}", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def is_connected(self) -> bool:
        """Return whether the engine says that the container is on its network. Raises `OSError`."""
        assert self.container is not None
        with refusals():
            self.container.handle.reload()
        return self.container.network in self.container.handle.attrs["NetworkSettings"]["Networks"]


def is_ready(control: socket.socket) -> bool:
    """Return whether a zygote says that it is ready; its answers are expected sooner from then on."""
    try:
        ready = untrusted.is_ready(control.recv(PACKET))
    except OSError:
        return False
    control.settimeout(ANSWER_S)
    return ready


def added_variables(pid: int) -> dict[str, str]:
    """Return what an engine adds to the environment of a container's processes, the image's own going before it."""
    return untrusted.variables(psutil.Process(pid).environ(), _ADDED)


def user_of(handle: docker.models.containers.Container) -> tuple[int, int]:
    """Return the numbers of the user and the group as whom a container's first process runs: its image's, as a rule."""
    user, _, group = handle.attrs["Config"]["User"].partition(":")
    # Lines of a name, a word, and a number; with a user comes the number of the first group.
    users, groups = (_table(handle, f"/etc/{name}") for name in ("passwd", "group"))
    known = next((line for line in users if user in (line[0], line[2])), ["", "", user or "0", "0"])
    named = next((line for line in groups if group and group in (line[0], line[2])), ["", "", group or known[3]])
    try:
        return untrusted.number(known[2], "user"), untrusted.number(named[2], "group")
    except ValueError as error:
        raise BreakrankError(str(error)) from None


def _table(handle: docker.models.containers.Container, path: str) -> list[list[str]]:
    """Return the fields of each line of a file such as passwd(5) in a container; none where there is no such file."""
    try:
        chunks, _ = handle.get_archive(path)
        return untrusted.table(chunks)
    except NotFound:
        return []
    except ValueError as error:
        raise BreakrankError(f"{path} of the image cannot be read: {error}") from None
