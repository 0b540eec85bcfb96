"""Ranks in containers of any image: a private network, a folder that all of them see, and one container per rank.

In each container the image's own interpreter runs a zygote from the staged agent; nothing is installed. It is called
through /proc/<pid>/root, and gets the rank's descriptors with the call (unix(7), SCM_RIGHTS): what a rank records lies
in the run directory as ever, without any path of ours in the container. Whoever calls therefore needs to see the
engine's processes; from inside a container, the ranks' containers join its own process namespace.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import re
import secrets
import socket
import sys
import tarfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import docker
import psutil
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from breakrank.errors import BreakrankError, CutShortError
from breakrank.host import engines
from breakrank.host.blocked.threads import read_numbers
from breakrank.host.session import NO_WALLS, VARIABLE, Session, is_alive, kill_all
from breakrank.host.supervisor import descendants
from breakrank.plan.script import command_line, is_script
from breakrank.runners import STARTED, bridge, retrieval, untrusted
from breakrank.runners.base import RankProcess
from breakrank.runners.namespaces import KINDS, Walls
from breakrank.runners.process import ProcessRunner
from breakrank.runners.sandbox import SandboxRunner
from breakrank.runners.workdir import View
from breakrank.runners.zygotes import ANSWER_S, lasting
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.entry import PACKET

_T = TypeVar("_T")

#: What containers, networks and volumes of ours are labelled with: the session that owns them.
LABEL = "breakrank.session"
#: The folder that all containers of a job share. The staged agent is in it, the programs, and the working folder.
SHARED = "/breakrank"
#: The folder in it where the zygotes listen, which whoever runs the ranks may write in.
SOCKETS = "sockets"
#: What an engine sets where an image does not, as for whatever `docker run` starts.
_ADDED = ("PATH", "HOME", "HOSTNAME")
#: Where a data loader's workers pass their batches on; an engine gives 64 MB by itself.
_SHM = "1g"
#: How long the processes of a container may take to be gone once they are killed. A limit, not a trigger.
_GONE_S = 5.0
#: How long the engine may take to remove what is ours, on a machine that has much else to do. A limit, too.
_REMOVED_S = 60.0
#: How long the first process may take to be seen in /proc once the engine says that it runs. A limit, too.
_SEEN_S = 5.0
#: What reading a configuration raises that docker has not written, or what a program prints that keeps credentials.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError)
#: How an engine says that a registry wants other credentials, or any: each registry, and each version, has its words.
_DENIED = re.compile(
    r"no basic auth|unauthori[sz]ed|authori[sz]ation|authentication|denied|forbidden|docker login", re.I
)
#: Says what an image has: its Python, and the version of each distribution, by its normalized name (PEP 503). And which
#: of the programs that it is asked for.
_ASK = (
    "import importlib.metadata as m, json, platform, re, shutil, sys\n"
    "names = {re.sub('[-_.]+', '-', d.metadata['Name'] or '').lower(): d.version for d in m.distributions()}\n"
    "there = list(filter(shutil.which, sys.argv[1:]))\n"
    "print(json.dumps([{**names, 'python': platform.python_version()}, there]))\n"
)


@functools.cache
def engine() -> docker.DockerClient:
    """Return the engine that the environment, or docker's own configuration, names. Raises `BreakrankError`."""
    host = engines.address()
    _configured()
    try:
        client = docker.DockerClient(host, use_ssh_client=True)
        client.ping()
    except (DockerException, OSError) as error:
        cure = engines.cure("`make docker` starts one, or set DOCKER_HOST")
        raise BreakrankError(f"no Docker engine answers ({error}); {cure}") from None
    return client


def _configured() -> docker.auth.AuthConfig:
    """Return whose registries docker has credentials for, and who keeps them. Raises `BreakrankError`."""
    try:
        return docker.auth.load_config()
    except (*_MALFORMED, DockerException) as error:
        raise BreakrankError(
            f"docker's configuration {engines.configuration()} cannot be read ({error}); correct it, or remove what is "
            "below auths, and docker login again"
        ) from None


@functools.cache
def find_image(name: str) -> docker.models.images.Image:
    """Return an image, pulled if it is not there, with the credentials that docker has. Raises `BreakrankError`."""
    client = engine()
    try:
        try:
            return client.images.get(name)
        except ImageNotFound:
            _pull(name)
            return client.images.get(name)
    except DockerException as error:
        raise BreakrankError(f"there is no image {name}, and it cannot be pulled: {_said(error)}") from None


def _pull(name: str) -> None:
    """Have the engine pull an image. Raises what the engine says, with what to do about credentials that fail."""
    repository, tag = docker.utils.parse_repository_tag(name)
    registry, _ = docker.auth.resolve_repository_name(repository)
    credentials, flaw = _credentials(registry)
    try:
        # What fails once the engine has begun to answer is one of its lines.
        lines = engine().api.pull(repository, tag or "latest", stream=True, decode=True, auth_config=credentials)
        failed = next((line["error"] for line in lines if "error" in line), "")
        if failed:
            raise DockerException(failed)
    except DockerException as error:
        said = _said(error)
        raise DockerException(f"{said}; {flaw}" if _DENIED.search(said) else said) from None


def _credentials(registry: str) -> tuple[dict[str, Any], str]:
    """Return the credentials that docker has for a registry, and what is wrong with them if they do not do.

    Like docker itself, without them it is tried all the same: what anybody may have needs none.
    """
    kept, where = _configured(), engines.configuration()
    try:
        with warnings.catch_warnings():
            # That a program is missing is said by what is raised, too.
            warnings.simplefilter("ignore")
            found = docker.auth.resolve_authconfig(kept, registry)
    except (*_MALFORMED, DockerException) as error:
        program = docker.credentials.constants.PROGRAM_PREFIX + str(kept.get_credential_store(registry))
        malformed = not isinstance(error, DockerException)
        why = "what it prints is malformed" if malformed else " ".join(str(error.__cause__ or error).split())
        return {}, f"{program} gives no credentials ({why}): mend it, or take it out of {where}"
    if not found:
        return {}, f"{where} has no credentials for it: docker login {registry}"
    return found, f"the credentials for it from {where} are refused: docker login {registry}"


@functools.cache
def _contents(name: str) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the versions of Python and of each distribution in an image, and the programs that it has."""
    find_image(name)
    called = f"breakrank-asked-{secrets.token_hex(6)}"
    how = {"entrypoint": ["python3"], "network_mode": "none", "name": called, "remove": True}
    try:
        # It ends by itself, whatever becomes of us.
        printed = engine().containers.run(name, ["-c", _ASK, *STARTED.values()], **how)
    except (DockerException, OSError) as error:
        # What could not be started is not removed by that.
        with contextlib.suppress(DockerException, OSError):
            engine().api.remove_container(called, force=True)
        raise BreakrankError(f"the image {name} has no python3 that runs: {_said(error)}") from None
    try:
        return untrusted.contents(printed)
    except ValueError as error:
        raise BreakrankError(f"the image {name} has no python3 that runs: {error}") from None


def versions(name: str) -> Mapping[str, str]:
    """Return the versions of Python, and of each distribution, in an image. Raises `BreakrankError`."""
    return _contents(name)[0]


def lacking(name: str, framework: str) -> str:
    """Return why an image cannot run the cases of a framework, or the empty string. Raises `BreakrankError`."""
    has = versions(name)
    if framework in ("", "none") or {framework, f"{framework}-cpu"} & has.keys():
        return ""
    return f"there is no {framework} in the image {name} (Python {has['python']})"


def lacks_program(name: str, program: str) -> str:
    """Return that an image lacks one of the programs that ranks start, with the cure, or the empty string.

    Raises `BreakrankError`.
    """
    there = program in _contents(name)[1]
    return "" if there else f"there is no program {program} in the image {name}; install it there"


@dataclass
class Container:
    """One container: the engine's handle, its first process as it is seen from here, and the line to its zygote."""

    handle: docker.models.containers.Container
    pid: int
    address: str
    host: str
    control: socket.socket
    network: str = ""
    #: What the engine adds to the environment of whatever runs in it.
    given: Mapping[str, str] = field(default_factory=dict)
    #: Whether it was off its network for a while: the engine then gives it another interface than it was made with.
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
            if _inner_pid(pid) == answer["pid"]:
                return pid
        raise BreakrankError(f"the rank in the container {self.host} ended before it began")

    def clear(self) -> None:
        """End every process in the container but the first."""
        kill_all(lambda: [pid for pid in descendants(self.pid) if _lives(pid)], _GONE_S)


@dataclass
class ContainerWalls(Walls):
    """What is around a rank in a container, which its engine can take off its network."""

    container: Container | None = None

    def disconnect(self) -> None:
        """Take the container off its network. Raises `OSError` with what the engine says."""
        assert self.container is not None
        self.container.worn = True
        with _refusals():
            engine().networks.get(self.container.network).disconnect(self.container.handle)

    def connect(self) -> None:
        """Put it on again, with the interface and the address that it had. Raises `OSError`."""
        assert self.container is not None
        with _refusals():
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
        """Whether the engine says that the container is on its network. Raises `OSError`."""
        assert self.container is not None
        with _refusals():
            self.container.handle.reload()
        return self.container.network in self.container.handle.attrs["NetworkSettings"]["Networks"]


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn what the engine raises into an `OSError`, which a strike may raise."""
    try:
        yield
    except DockerException as error:
        raise OSError(_said(error)) from None


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
        _at_once(
            sweep,
            partial(engine().networks.create, self._name, driver="bridge", internal=True, labels=self._labels),
            partial(engine().volumes.create, self._name, labels=self._labels),
        )

    @property
    def stands(self) -> bool:
        """Whether every container's first process lives, and its network is as it was made."""
        return all(_lives(container.pid) and not container.worn for container in self.containers)

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
        made = _at_once(*(partial(self._create, rank) for rank in missing))
        if self.containers:
            first, packed = self.containers[0].handle, _packed(parts or {}, self._owner)
        else:
            first, self._owner = made[0], _user_of(made[0])
            packed = _packed({self._staged.name: self._staged, **(parts or {})}, self._owner, ("", SOCKETS))
        # From above, since the engine leaves the folder itself to root that an archive is unpacked in.
        first.put_archive("/", packed)
        self.containers += _at_once(*(partial(self._start, *one) for one in zip(missing, made, strict=True)))
        return self.containers[:ranks]

    def close(self) -> None:
        """Remove the containers, the network and the volume."""
        for container in self.containers:
            container.control.close()
        self.containers.clear()
        # An engine that has gone takes nothing back now: the warden tries again, and so does the next start. A warden
        # that has gone has nothing to be told.
        with contextlib.suppress(DockerException, OSError, BreakrankError):
            remove(self._session.id)
            self._session.last([])

    def _create(self, rank: int) -> docker.models.containers.Container:
        host = bridge.host_name(rank)
        zygote = {"listen": f"{SHARED}/{SOCKETS}/{host}", "framework": self._framework}
        # Whoever may use the engine without being root reaches only processes of their own.
        user = {} if os.geteuid() == 0 else {"user": "0:0" if _rootless() else f"{os.geteuid()}:{os.getegid()}"}
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
            pid_mode=_process_namespace(),
            device_requests=_gpus(),
            **user,
        )

    def _start(self, rank: int, handle: docker.models.containers.Container) -> Container:
        said = handle.attach(stream=True, logs=True)
        handle.start()
        handle.reload()
        host = bridge.host_name(rank)
        pid = _seen_from_here(handle)
        control, why = None, ""
        try:
            if pid:
                where = f"{SHARED}/{SOCKETS}/{host}"
                control = untrusted.call(pid, where, partial(_lives, pid), partial(descendants, pid))
        except OSError as error:
            why = str(error)
        if control is None or not _is_ready(control):
            with contextlib.suppress(APIError, NotFound):
                handle.kill()
            why = why or untrusted.last_line(said)
            raise BreakrankError(f"no rank can run in a container of {self._image}: {why}")
        address = handle.attrs["NetworkSettings"]["Networks"][self._name]["IPAddress"]
        return Container(handle, pid, address, host, control, self._name, _given(pid))


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


@dataclass
class DockerRunner(SandboxRunner):
    """Starts the ranks in containers. `cold`: each in a fresh one, which is removed after the run."""

    clusters: Clusters | None = None
    cold: bool = False
    _plan: Plan | None = None
    _cluster: Cluster | None = None
    _shared: str = ""
    _work: Path = field(default_factory=Path)
    #: Why what the ranks wrote could not be brought back.
    _lost: str = ""

    def lay(self, plan: Plan, folder: Path) -> View:
        """Start what the ranks will run in, lay the run's working folder in, and return it. Raises `BreakrankError`."""
        assert self.clusters is not None
        walled = [strike.fault.name() for strike in plan.strikes if strike.fault.walled]
        if walled and os.geteuid() != 0 and not _rootless():
            raise BreakrankError(
                f"{walled[0]} strikes through the walls of a container, which root alone may enter: run as root, or "
                "use an engine that runs without root, as its user"
            )
        self._plan = plan
        framework = "" if self.cold or plan.command else plan.framework
        environment = lasting(ProcessRunner._environment(self, plan, 0, 0, 0))
        self._work = folder / "work"
        try:
            cluster = self._cluster = self.clusters.get(plan.image, framework, environment)
            containers, self._shared = cluster.lay(plan.ranks, self.programs, self._work)
        except (DockerException, OSError) as error:
            raise BreakrankError(f"the containers cannot be made ready: {_said(error)}") from None
        self._around = [ContainerWalls(one.pid, _kinds(), one.address, one.host, container=one) for one in containers]
        return View(Path(f"{self._shared}/work"), containers[0].pid)

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterator[RankProcess]:
        """Start the ranks of `attempt`, one after the other. Raises `BreakrankError`."""
        return ProcessRunner.start(self, plan, attempt, folder, view)

    def end_attempt(self) -> None:
        """End what the ranks left running, in the containers, too."""
        super().end_attempt()
        if self._cluster is not None:
            for container in self._cluster.containers:
                container.clear()

    def sum_up(self, write: Callable[..., None]) -> None:
        """Take what the ranks wrote back into the run directory, and say what was left out."""
        if self._cluster is None:
            return
        try:
            left_out = retrieval.bring_back(self._cluster.containers[0].pid, f"{self._shared}/work", self._work)
            if left_out.count:
                write("not_kept", count=left_out.count, path=left_out.path, why=left_out.why)
        except OSError as error:
            self._lost = f"the working folder is lost with the container of rank 0 ({error})"

    def close(self) -> None:
        """Give everything back. Raises `BreakrankError` if what the ranks wrote was lost."""
        for walls in self._around:
            walls.close()
        self._around = []
        if self._cluster is None or self.clusters is None:
            return
        if not self.cold:
            retrieval.remove(self._cluster.containers[0].pid, self._shared)
        self._cluster = None
        if self.cold or self._lost:
            self.clusters.close()
        if self._lost:
            raise CutShortError(self._lost)

    def _spawn(
        self,
        plan: Plan,
        boot: dict[str, Any],
        env: dict[str, str],
        view: View,
        descriptors: list[int],
        channel: socket.socket,
    ) -> int:
        assert self._cluster is not None
        container = self._cluster.containers[boot["rank"]]
        with contextlib.ExitStack() as files:
            # What lies in the run directory goes along open: in the container it has no name.
            flags = {"log": os.O_RDWR, "stacks": os.O_WRONLY | os.O_CREAT, "words": os.O_WRONLY | os.O_NONBLOCK}
            sent = list(descriptors)
            for name in ("log", "stacks", "words", "plan"):
                descriptor = os.open(boot[name], flags.get(name, os.O_RDONLY), 0o600)
                files.callback(os.close, descriptor)
                boot[name] = len(sent)
                sent.append(descriptor)
            boot["programs"] = f"{self._shared}/programs"
            env = {**container.given, **env, **self.session.mark}
            request = {"boot": boot, "env": env, "cwd": str(view.folder), "walls": NO_WALLS}
            if plan.command:
                request["argv"] = self._command(plan.command)
                if self.agent:
                    env["BREAKRANK_ENTER"] = json.dumps(boot)
            elif self.cold:
                request["argv"] = ["python3", "-m", "breakrank_agent.start.boot"]
                env["BREAKRANK_BOOT"] = json.dumps(boot)
            pid: int = container.ask(request, sent)
        self.session.follow(pid)
        channel.send(b"\n")
        return pid

    def _command(self, command: Sequence[str]) -> list[str]:
        """Return a user's script as the image's own interpreter runs it."""
        words = command_line(command)
        return ["python3", *words[1:]] if is_script(command) else words

    def _master(self, plan: Plan) -> str:
        """Return the name of rank 0's host, which the engine's name server knows."""
        return self._around[0].host

    def _inherited(self) -> dict[str, str]:
        """Return the image's own environment."""
        assert self._plan is not None
        config = find_image(self._plan.image).attrs["Config"] or {}
        return dict(line.split("=", 1) for line in config.get("Env") or ())

    def _staged(self) -> str:
        return f"{SHARED}/{self.staged.name}"


def remove(session: str) -> list[str]:
    """Remove what carries a session's id; return what that was. Raises `BreakrankError` if the engine does not.

    It may make a container yet that it was asked for before, and frees a network only when the last one has left it.
    """
    gone: dict[str, None] = {}
    until = time.monotonic() + _REMOVED_S
    while refused := _remove_once(session, gone):
        if time.monotonic() > until:
            raise BreakrankError(f"the engine does not remove what is ours: {refused}")
        time.sleep(0.05)
    return list(gone)


def _remove_once(session: str, gone: dict[str, None]) -> str:
    """Remove what can be removed now, and note it; return what was refused, empty if there was nothing.

    What the containers are on goes after them.
    """
    filters = {"label": f"{LABEL}={session}"}
    client = engine()
    containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
    around = [("network", one) for one in client.networks.list(filters=filters)]
    around += [("volume", one) for one in client.volumes.list(filters=filters)]
    gone.update({f"container {one.name}": None for one in containers})
    gone.update({f"{kind} {one.name}": None for kind, one in around})
    refused = _at_once(*(partial(_refused, partial(one.remove, force=True)) for one in containers))
    refused += _at_once(*(partial(_refused, one.remove) for _, one in around))
    return next(filter(None, refused), "")


def _at_once(*calls: Callable[[], _T]) -> list[_T]:
    """Make calls side by side, since the engine takes its time with each; return what they return."""
    with ThreadPoolExecutor(max(1, len(calls))) as pool:
        return [done.result() for done in [pool.submit(call) for call in calls]]


def _refused(remove_it: Callable[[], object]) -> str:
    """Have something removed; return why the engine does not, empty if it is gone."""
    try:
        remove_it()
    except NotFound:
        pass
    except APIError as error:
        return _said(error)
    return ""


def sweep(show: bool = False, session: str = "") -> list[str]:
    """Remove what sessions have left in the engine whose owner is dead, or only show it; return what that is.

    With `session`, it is what carries that id, whether or not the owner is alive.
    """
    client, filters = engine(), {"label": LABEL}
    found: dict[str, list[str]] = {}
    for kind, labels, name in [
        *(
            ("container", one.labels, one.name)
            for one in client.containers.list(all=True, filters=filters, ignore_removed=True)
        ),
        *(("network", one.attrs["Labels"], one.name) for one in client.networks.list(filters=filters)),
        *(("volume", one.attrs["Labels"], one.name) for one in client.volumes.list(filters=filters)),
    ]:
        if labels[LABEL] == session or not (session or is_alive(labels[LABEL])):
            found.setdefault(labels[LABEL], []).append(f"{kind} {name}")
    if not show:
        for dead in found:
            remove(dead)
    return [name for names in found.values() for name in names]


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


def _seen_from_here(handle: docker.models.containers.Container) -> int:
    """Return the pid of a container's first process as it is seen from here, 0 if it has ended.

    Raises `BreakrankError` if it is not seen. The engine says the pid that it sees itself; from inside of a container
    that is another one, or somebody else's.
    """
    marks = (f"{VARIABLE}=", "BREAKRANK_ZYGOTE=", "HOSTNAME=")
    expected = {line.encode() for line in handle.attrs["Config"]["Env"] if line.startswith(marks)}
    until = time.monotonic() + _SEEN_S
    while own := int(handle.attrs["State"]["Pid"]):
        for pid in (own, *(int(name) for name in os.listdir("/proc") if name.isdigit())):
            # The engine may say that it runs before its program is executed.
            with contextlib.suppress(OSError):
                if expected <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")):
                    return pid
        if time.monotonic() > until:
            raise BreakrankError(
                "the engine's processes are not seen from here: use an engine of this machine, or be root"
            )
        try:
            handle.reload()
        except NotFound:
            return 0
    return 0


def _given(pid: int) -> dict[str, str]:
    """Return what an engine adds to the environment of a container's processes, the image's own going before it."""
    return untrusted.variables(psutil.Process(pid).environ(), _ADDED)


@functools.cache
def _process_namespace() -> str | None:
    """Return whose processes the containers are to be among, if we are in a container that sees only its own."""
    if not os.path.exists("/.dockerenv"):
        return None
    try:
        ours = engine().containers.get(socket.gethostname())
    except NotFound:
        return None
    return None if ours.attrs["HostConfig"]["PidMode"] == "host" else f"container:{ours.id}"


@functools.cache
def _rootless() -> bool:
    """Whether the engine runs without root: whoever started it is root in its containers."""
    return any(option.startswith("name=rootless") for option in engine().info().get("SecurityOptions") or ())


def _user_of(handle: docker.models.containers.Container) -> tuple[int, int]:
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


def _kinds() -> tuple[str, ...]:
    """Return the kinds of namespaces around a container: without root, the user's own lets us into the others."""
    return KINDS if os.geteuid() == 0 or not _rootless() else ("user", *KINDS)


@functools.cache
def _gpus() -> list[docker.types.DeviceRequest]:
    """Return a request for every GPU, where the engine passes them through."""
    if "nvidia" not in engine().info().get("Runtimes", {}):
        return []
    return [docker.types.DeviceRequest(count=-1, capabilities=[["gpu"]])]


def _is_ready(control: socket.socket) -> bool:
    """Whether a zygote says that it is ready; its answers are expected sooner from then on."""
    try:
        ready = untrusted.is_ready(control.recv(PACKET))
    except OSError:
        return False
    control.settimeout(ANSWER_S)
    return ready


def _inner_pid(pid: int) -> int:
    """Return how a process is called in its own process namespace; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return (read_numbers(f"/proc/{pid}") or [0])[-1]
    return 0


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    return False


def _said(error: Exception) -> str:
    """Return what the engine says, in one line."""
    text = getattr(error, "explanation", None) or getattr(error, "stderr", None) or str(error)
    words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return (words.strip().splitlines() or ["nothing"])[-1]
