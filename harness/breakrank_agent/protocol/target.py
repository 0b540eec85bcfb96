"""The rank as a fault from outside sees it: its process, its folder, its control group, and its network."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Protocol, Union

from breakrank_agent.kernel.rooted import WorkingFolder

#: The flags of a mount (mount(2)): read-only; changed in its place; another place for files that are mounted already.
READ_ONLY, REMOUNT, BIND = 1, 32, 4096
#: The path of the shared memory in a rank's own root.
SHARED_MEMORY = "/dev/shm"


class Network(Protocol):
    """The network of one rank, which is its own."""

    @property
    def address(self) -> str:
        """The rank's own address."""

    @property
    def host(self) -> str:
        """The rank's own host name."""

    def run(self, *command: str, text: str = "", inside: tuple[str, ...] = ("net",)) -> str:
        """Run a program of the machine in the namespaces `inside`, on `text`; return what it prints.

        Raises `OSError` with what the program says if it fails.
        """

    def datagrams(self) -> socket.socket:
        """Return a socket for datagrams at the rank's address. Raises `OSError`."""

    def open_socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """Return a new socket in the rank's network. Raises `OSError`."""


class Mounts(Protocol):
    """The mounts of one rank, which are its own."""

    def mount(self, source: Union[str, int], target: int, kind: str = "", flags: int = 0, options: str = "") -> int:
        """Mount `source`, by name or open, over the very file or folder that is open as `target`, as mount(2) does.

        Return a descriptor of the new file or folder there, which the caller closes. Raises `OSError`.
        """

    def remount(self, mounted: int, flags: int = 0, options: str = "") -> None:
        """Change the mount that `mount` has returned. Raises `OSError`."""

    def unmount(self, mounted: int) -> None:
        """Remove the mount that `mount` has returned, for each path that is looked up anew. Raises `OSError`."""


class Container(Protocol):
    """The container of one rank, as its engine knows it."""

    def disconnect(self) -> None:
        """Take the rank's container off its network. Raises `OSError` where there is none, or its engine refuses."""

    def connect(self) -> None:
        """Put the container on its network again, at the address that it had. Raises `OSError`."""

    def is_connected(self) -> bool:
        """Return whether the engine says that the container is on its network. Raises `OSError`."""


class Walls(Network, Mounts, Container, Protocol):
    """All that a runner has put up around one rank."""


class Group(Protocol):
    """The control group of one rank and of all that it starts. Each method raises `OSError` where it cannot be done."""

    def limit_memory(self, size: int) -> None:
        """Limit memory that is taken from now on to `size` bytes."""

    def limit_cpu(self, percent: float) -> None:
        """Limit it to `percent` of one core."""

    def free_cpu(self) -> None:
        """Let it have every core again."""

    def limit_processes(self, headroom: int) -> None:
        """Limit it to `headroom` processes and threads more than it has."""

    def freeze(self) -> None:
        """Have everything in it stand still."""

    def thaw(self) -> None:
        """Let everything in it go on."""


class Disk(Protocol):
    """The part of the working folder that has reached the disk. Each method raises `OSError` if not all was seen."""

    def roll_back(self) -> None:
        """Leave what is on disk, and nothing else."""

    def names(self) -> Iterator[tuple[int, Mapping[str, Optional[bytes]]]]:
        """Yield each folder that was changed, open, with its names on disk, and the digests of files (sha256)."""


class Calls(Protocol):
    """The system calls of one rank, of its threads and children, that change files or bring them to disk."""

    def hold(self, pattern: str, most: float) -> None:
        """Hold back the next calls, `most` of them, on a path of the working folder that matches a pattern."""

    def release(self) -> None:
        """Let those be done that are held back, and hold back no more."""


class Task(Protocol):
    """The task of Slurm's that the rank is. Each method raises `OSError` if the controller refuses."""

    @property
    def job(self) -> str:
        """The number of its job."""

    @property
    def node(self) -> str:
        """The node that it runs on."""

    def step(self) -> str:
        """Return the step that runs."""

    def steps(self) -> Sequence[str]:
        """Return the steps of the job that run."""

    def run(self, *command: str) -> str:
        """Run a program of Slurm's, and return what it prints."""

    def says(self, name: str) -> str:
        """Return what the controller has of the job under a name, empty if it has nothing."""

    def stands_still(self) -> bool:
        """Return whether the rank was told to stand still, as the kernel of its node has it."""

    def pending(self, number: int) -> str:
        """Return how the rank will treat a signal that waits for it, empty if none does."""

    def seconds_left(self) -> float:
        """Return how long it is until the time limit of the job, as the controller has it."""

    def urgent(self) -> str:
        """Return a partition whose jobs take the nodes of this one."""

    def turn(self, what: str, on: bool) -> None:
        """Turn a host of the test cluster, its daemon or its cable off or on."""


class Target(Protocol):
    """The rank as a fault from outside sees it: its process, the working folder, and its peers' processes by rank.

    `number` is the strike's in the plan. `folder` is the working folder as the rank sees it: a path in it is opened by
    `files` alone, since the rank may have laid anything there. `store` is the port of the job's rendezvous store, 0 if
    it is not known. `kept` holds the values that the strike keeps for healing.
    """

    number: int
    rank: int
    pid: int
    folder: str
    peers: Mapping[int, int]
    store: int
    kept: dict[str, Any]

    @property
    def around(self) -> Mapping[int, Walls]:
        """The walls around each rank of the job that has some."""

    @property
    def walls(self) -> Walls:
        """The walls around the rank. Raises `OSError` if there are none."""

    @property
    def task(self) -> Task:
        """The task of a cluster's that the rank is. Raises `OSError` if it is none."""

    @property
    def disk(self) -> Disk:
        """The disk below the working folder. Raises `OSError` if the writes of the rank are not watched."""

    @property
    def calls(self) -> Calls:
        """The rank's calls on files. Raises `OSError` if they are not watched."""

    @property
    def group(self) -> Group:
        """The rank's control group, into which it comes when this is first asked for. Raises `OSError` without any."""

    def walls_of(self, rank: int) -> Walls:
        """Return the walls around a rank of the job. Raises `OSError` if there are none, or no such rank."""

    def files(self) -> WorkingFolder:
        """Return the working folder, in the mounts that strikes act in. Raises `OSError`."""

    def laid(self) -> WorkingFolder:
        """Return the working folder as it lies, without what strikes have mounted over it. Raises `OSError`."""

    def seen(self) -> WorkingFolder:
        """Return the working folder as it lies in the rank's own root. Raises `OSError`, also if the rank is gone."""

    def at_rest(self) -> bool:
        """Return whether the ranks have stood still at several calls of this in a row: none of their threads ran."""

    def signal(self, number: int) -> None:
        """Send the signal `number` to the rank."""

    def start(self, script: str, *arguments: str) -> int:
        """Start a script of ours in the rank's network, wait until it says `ready`, and return its pid.

        It ends with the attempt at the latest. Raises `OSError` with what it says instead.
        """

    def stop(self, pid: int) -> None:
        """End a process that `start` has started."""
