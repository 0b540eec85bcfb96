"""The containers of one job: a private network, a folder that all of them share, and one container a rank."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import secrets
import sys
import tarfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import docker
from docker.errors import APIError, DockerException, NotFound

from breakrank.errors import BreakrankError
from breakrank.host.session import Session
from breakrank.host.supervisor import descendants, is_running
from breakrank.runners import bridge
from breakrank.runners.docker import untrusted
from breakrank.runners.docker.container import Container, added_variables, is_ready, user_of
from breakrank.runners.docker.engine import at_once, engine, is_rootless
from breakrank.runners.docker.image import find_image
from breakrank.runners.docker.namespaces import pid_mode, pid_seen_from_here
from breakrank.runners.docker.sweep import LABEL, remove, sweep

#: The folder that all containers of a job share. The staged agent is in it, the programs, and the working folder.
SHARED = "/breakrank"
#: The folder in it in which the zygotes listen; the user that runs the ranks may write there.
SOCKETS = "sockets"
#: The size of /dev/shm, through which a data loader's workers pass batches on; an engine gives 64 MB by itself.
_SHM = "1g"


class Cluster:
    """The containers of one job. They stand until they are closed, or their owner is gone."""

    def __init__(self, session: Session, staged: Path, image: str, framework: str, env: dict[str, str]) -> None:
        self._session = session
        self._staged = staged
        self._image = image
        self._name = f"breakrank-{session.id}-{secrets.token_hex(3)}"
        self._labels = {LABEL: session.id}
        self._runs = 0
        self._framework = framework
        self._env = {**env, **session.mark}
        self.containers: list[Container] = []
        #: The numbers of the user and the group that the ranks run as, once there is a container to ask.
        self._owner = (0, 0)
        # Told first: whatever is made from here on is removed, even if we are killed in between.
        session.last([sys.executable, "-I", "-m", "breakrank", "sweep", "--session", session.id])
        at_once(
            sweep,
            partial(engine().networks.create, self._name, driver="bridge", internal=True, labels=self._labels),
            partial(engine().volumes.create, self._name, labels=self._labels),
        )

    @property
    def stands(self) -> bool:
        """True if every container's first process lives, and its network is as it was made."""
        return all(is_running(container.pid) and not container.worn for container in self.containers)

    def lay(self, ranks: int, programs: Path, work: Path) -> tuple[list[Container], str]:
        """Return the containers of so many ranks, and the folder in them that one run's programs and work are in now.

        Raises `BreakrankError` if no rank can run in one, and what the engine raises.
        """
        self._runs += 1
        folder = str(self._runs)
        return self.grow(ranks, {f"{folder}/programs": programs, f"{folder}/work": work}), f"{SHARED}/{folder}"

    def grow(self, ranks: int, parts: Mapping[str, Path] | None = None) -> list[Container]:
        """Return the containers of so many ranks, those that are missing made now, with files and folders put in."""
        missing = range(len(self.containers), ranks)
        made = at_once(*(partial(self._create, rank) for rank in missing))
        if self.containers:
            first, packed = self.containers[0].handle, _packed(parts or {}, self._owner)
        else:
            first, self._owner = made[0], user_of(made[0])
            packed = _packed({self._staged.name: self._staged, **(parts or {})}, self._owner, ("", SOCKETS))
        # From above, since the engine leaves the folder itself to root that an archive is unpacked in.
        first.put_archive("/", packed)
        self.containers += at_once(*(partial(self._start, *one) for one in zip(missing, made, strict=True)))
        return self.containers[:ranks]

    def close(self) -> None:
        """Remove the containers, the network and the volume."""
        for container in self.containers:
            container.control.close()
        self.containers.clear()
        # An engine that has gone takes nothing back now: the supervisor tries again, and so does the next start. A
        # supervisor that has gone has nothing to be told.
        with contextlib.suppress(DockerException, OSError, BreakrankError):
            remove(self._session.id)
            self._session.last([])

    def _create(self, rank: int) -> docker.models.containers.Container:
        host = bridge.host_name(rank)
        zygote = {"listen": f"{SHARED}/{SOCKETS}/{host}", "framework": self._framework}
        # A user of the engine who is not root reaches only processes of their own.
        user = {} if os.geteuid() == 0 else {"user": "0:0" if is_rootless() else f"{os.geteuid()}:{os.getegid()}"}
        return engine().containers.create(
            self._image,
            ["-m", "breakrank_agent.start.zygote"],
            entrypoint=["python3"],
            environment={**self._env, "HOSTNAME": host, "BREAKRANK_ZYGOTE": json.dumps(zygote)},
            name=f"{self._name}-{host}",
            hostname=host,
            network=self._name,
            volumes={self._name: {"bind": SHARED, "mode": "rw"}},
            working_dir="/",
            labels=self._labels,
            auto_remove=True,
            shm_size=_SHM,
            security_opt=["label=disable"],
            pid_mode=pid_mode(),
            device_requests=_gpus(),
            **user,
        )

    def _start(self, rank: int, handle: docker.models.containers.Container) -> Container:
        said = handle.attach(stream=True, logs=True)
        handle.start()
        handle.reload()
        host = bridge.host_name(rank)
        pid = pid_seen_from_here(handle)
        control, why = None, ""
        try:
            if pid:
                where = f"{SHARED}/{SOCKETS}/{host}"
                control = untrusted.call(pid, where, partial(is_running, pid), partial(descendants, pid))
        except OSError as error:
            why = str(error)
        if control is None or not is_ready(control):
            with contextlib.suppress(APIError, NotFound):
                handle.kill()
            why = why or untrusted.last_line(said)
            raise BreakrankError(f"no rank can run in a container of {self._image}: {why}")
        address = handle.attrs["NetworkSettings"]["Networks"][self._name]["IPAddress"]
        return Container(handle, pid, address, host, control, self._name, added_variables(pid))


class Clusters:
    """The cluster of one session, which is made anew where other ones are needed."""

    def __init__(self, session: Session, staged: Path) -> None:
        self._session = session
        self._staged = staged
        self._key: tuple[object, ...] = ()
        self._cluster: Cluster | None = None

    def get(self, image: str, framework: str, env: dict[str, str]) -> Cluster:
        """Return the cluster for this image, framework and environment. Raises `BreakrankError`."""
        key = (find_image(image).id, framework, tuple(sorted(env.items())))
        if self._cluster is None or key != self._key or not self._cluster.stands:
            self.close()
            self._cluster, self._key = Cluster(self._session, self._staged, image, framework, env), key
        return self._cluster

    def close(self) -> None:
        """Remove everything."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()


def _packed(parts: Mapping[str, Path], owner: tuple[int, int], folders: Sequence[str] = ()) -> bytes:
    """Return files and folders, under other names in the shared one, and empty folders, for whoever runs the ranks."""

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid, entry.gid = owner
        return None if entry.name.endswith((".pyc", "__pycache__")) else entry

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for folder in folders:
            empty = tarfile.TarInfo(f"{SHARED[1:]}/{folder}")
            empty.type, empty.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(owned(empty) or empty)
        for name, path in parts.items():
            archive.add(path, f"{SHARED[1:]}/{name}", filter=owned)
    return data.getvalue()


@functools.cache
def _gpus() -> list[docker.types.DeviceRequest]:
    """Return a request for every GPU, where the engine passes them through."""
    if "nvidia" not in engine().info().get("Runtimes", {}):
        return []
    return [docker.types.DeviceRequest(count=-1, capabilities=[["gpu"]])]
