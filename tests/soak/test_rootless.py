"""An engine that runs without root: one is started, and each strike lands on ranks there, or says why it cannot.

Both may use it: its own user, who reaches its containers as the owner of their user namespace, and root.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import containers

from breakrank.doctor import missing

pytestmark = pytest.mark.soak

#: The place of Debian's package; other packages put the script on the search path.
SCRIPT = shutil.which("dockerd-rootless.sh") or "/usr/share/docker.io/contrib/dockerd-rootless.sh"
PROGRAMS = {"rootlesskit": "rootlesskit", "newuidmap": "uidmap", "slirp4netns": "slirp4netns", "unshare": "util-linux"}
#: The engine's network needs a device that is often for root alone: the engine gets a private one.
STARTED = """
mknod $1/tun c 10 200 && chmod 666 $1/tun && mount --bind $1/tun /dev/net/tun || exit
exec setpriv --reuid $2 --regid $3 --init-groups --pdeathsig TERM sh $4 --data-root $1/data
"""
#: Files that the user needs may lie in a folder that only root may enter: then another folder is mounted over it, with
#: nothing but those files in it, and nobody else sees that mount.
ENTERED = """
set -e
home=$1 user=$2 group=$3 opened=; shift 3
while [ $1 != -- ]; do
    closed=$1 needed=$2; shift 2
    case "$opened" in
    *":$closed:"*) ;;
    *)
        mkdir -p $home/held$closed
        mount --rbind $closed $home/held$closed
        mount -t tmpfs -o mode=755 breakrank $closed
        opened="$opened:$closed:"
    esac
    mkdir -p $needed
    mount --rbind $home/held$needed $needed
done
shift
cd $home
exec setpriv --reuid $user --regid $group --init-groups "$@"
"""
#: Cases that reach a rank in a container from outside: by signals, its mounts, its network, its name server.
STRUCK = (
    *("killed_rank::torch-plain", "killed_rank::torch-resuming", "stopped_rank::torch-limited"),
    *("cut_link::torch-limited", "partition::torch-limited", "slow_link::torch-plain"),
    *("full_disk::torch-in-place", "readonly_disk::torch-unforgiving", "dns_failure::torch-own-master"),
    *("torn_checkpoint::torch-in-place", "exhausted_files::torch-plain", "oversized_batch::torch-plain"),
    *("io_error::torch-retrying-one", "exhausted_shm::torch-plain", "leaky_layer::torch-graph"),
)
#: Cases that need a control group: root makes one anywhere, other users where they were given one.
GROUPED = ("frozen_rank::torch-limited", "throttled_rank::torch-ddp", "oom_killed_rank::torch-plain")


def lacking() -> str:
    """Return why no such engine can be started here, or the empty string."""
    if os.geteuid() != 0:
        return "needs root, who gives the engine a device for its network and uses it as another user, too"
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"there is no program {program}; apt-get install {package}"
    if not os.path.exists(SCRIPT):
        return "there is no dockerd-rootless.sh; apt-get install docker.io"
    return "" if somebody() else "no user has subordinate ids; useradd -m NAME, with uidmap installed"


def somebody() -> pwd.struct_passwd | None:
    """Return a user who is not root and has subordinate ids: subuid(5)."""
    with contextlib.suppress(OSError):
        for line in Path("/etc/subuid").read_text().splitlines():
            with contextlib.suppress(KeyError):
                found = pwd.getpwnam(line.partition(":")[0])
                if found.pw_uid:
                    return found
    return None


@dataclass
class Engine:
    """The engine, whose folder is its user's."""

    folder: Path
    user: pwd.struct_passwd

    @property
    def host(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    def docker(self, *arguments: str, text: bytes | None = None) -> str:
        done = subprocess.run(["docker", "--host", self.host, *arguments], input=text, check=True, capture_output=True)
        return done.stdout.decode().strip()

    def environment(self, home: Path) -> dict[str, str]:
        folder = os.path.dirname(sys.executable)
        path = f"{folder}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"HOME": str(home), "XDG_RUNTIME_DIR": str(self.folder), "DOCKER_HOST": self.host, "PATH": path}

    def entered(self, home: Path, command: list[str]) -> list[str]:
        """Return a command as the engine's user enters it, in a home of their own."""
        ids = [str(self.user.pw_uid), str(self.user.pw_gid)]
        ours = {Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2], *map(Path, sys.path)}
        # A link is followed to its target, which may lie below another closed folder.
        ours |= {path.resolve() for path in ours}
        behind = [
            str(word) for path in sorted(ours) if path.is_dir() and (door := closed(path)) for word in (door, path)
        ]
        return ["unshare", "--mount", "sh", "-c", ENTERED, "sh", str(home), *ids, *behind, "--", *command]


def closed(path: Path) -> Path | None:
    """Return the topmost folder above a path that only its owner may enter."""
    return next((f for f in reversed(path.parents) if not stat.S_IMODE(f.stat().st_mode) & stat.S_IXOTH), None)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    image = containers.require(containers.TORCH)
    if reason := lacking():
        pytest.skip(reason)
    user = somebody()
    # pytest's own folders are closed to others, and a socket's path is short.
    folder = Path(tempfile.mkdtemp(prefix="breakrank-"))
    os.chown(folder, user.pw_uid, user.pw_gid)
    made = Engine(folder, user)
    words = [str(folder), str(user.pw_uid), str(user.pw_gid), SCRIPT]
    command = ["unshare", "--mount", "sh", "-c", STARTED, "sh", *words]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(command, env=made.environment(folder), stdout=log, stderr=log)
    try:
        while not (folder / "docker.sock").exists():
            assert server.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        saved = subprocess.Popen(["docker", "save", f"{image}:latest"], stdout=subprocess.PIPE)
        subprocess.run(["docker", "--host", made.host, "load", "-q"], stdin=saved.stdout, check=True)
        assert saved.wait() == 0
        yield made
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
        shutil.rmtree(folder)


@pytest.fixture
def home(engine) -> Iterator[Path]:
    """Yield a folder of the user's, in which runs are kept."""
    made = Path(tempfile.mkdtemp(prefix="breakrank-"))
    os.chown(made, engine.user.pw_uid, engine.user.pw_gid)
    yield made
    shutil.rmtree(made)


Tried = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(params=["root", "its user"])
def tried(request, engine, home) -> Tried:
    """Return a function that runs Python with the engine, as its user or as root."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        if request.param != "root":
            command = engine.entered(home, command)
        return subprocess.run(command, cwd=home, env=engine.environment(home), capture_output=True, text=True)

    run.who = request.param
    return run


def scenarios(tried: Tried, *names: str) -> tuple[str, dict[str, str]]:
    """Return pytest's output for cases in containers, and the state of each case in its report."""
    said = tried(
        *("-m", "pytest", f"--scenario={','.join(names)}", f"--scenario-image={containers.TORCH}"),
        *("-p", "no:cacheprovider", "-rs"),
    )
    lines = re.findall(r"^([A-Z]+|not tested) +(\S+::\S+)  docker\b(.*(?:\n  .*)*)$", said.stdout, re.MULTILINE)
    assert len(lines) == len(names), said.stdout + said.stderr
    return said.stdout, {name: f"{outcome}{more}" for outcome, name, more in lines}


def as_recorded(state: str) -> bool:
    """Return whether a row is one of a case that was tested, and names no other record."""
    return not state.startswith(("not tested", "VOID")) and "on record" not in state


def test_what_strikes_ranks_strikes_them_in_its_containers(tried):
    said, states = scenarios(tried, *STRUCK)
    assert all(map(as_recorded, states.values())), said


def test_a_control_group_is_made_or_the_doctor_says_for_want_of_what(tried):
    said, states = scenarios(tried, *GROUPED)
    if tried.who == "root":
        reason = missing(["freezer cgroup", "cpu cgroup", "memory cgroup"])
        if reason:
            pytest.skip(reason)
        assert all(map(as_recorded, states.values())), said
    else:
        cure = "run as root, or start pytest under systemd-run --user --scope -p Delegate=yes"
        untested = [name for name, state in states.items() if state.startswith("not tested")]
        assert all(as_recorded(states[name]) for name in states.keys() - untested), said
        assert not untested or cure in said


DISCONNECTED = """
import sys
from dataclasses import replace
from pathlib import Path
from breakrank.plan.catalogue import load_scenarios, select
from breakrank.plan.build import Choices, make_plan
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank_agent import faults
from breakrank_agent.plan import Strike

((scenario, case),) = select(load_scenarios(), ["cut_link::torch-limited"])
plan = make_plan(scenario, case, Choices(runner="docker", image=sys.argv[1]))
off = Strike(faults.DisconnectContainer(), plan.strikes[0].trigger, plan.strikes[0].ranks)
with Bench(Path.cwd() / "runs") as bench:
    result = bench.run(Request(replace(plan, strikes=(off,), restarts=1)))
    history = load_run(result.folder).history
    print(result.verdict.outcome, *([lived.status for lived in history.attempt(attempt)] for attempt in (0, 1)))
"""


def test_a_container_is_taken_off_its_network_and_put_on_again(tried):
    said = tried("-c", DISCONNECTED, containers.TORCH)
    assert re.match(r"SURVIVED (?!\[0, 0\]).* \[0, 0\]$", said.stdout), said.stdout + said.stderr


def test_nothing_is_left_in_the_engine_when_its_users_pytest_is_killed(engine, home):
    words = ["-m", "pytest", "--scenario=spinning_rank::torch-by-hand", f"--scenario-image={containers.TORCH}"]
    command = engine.entered(home, [sys.executable, *words])
    owner = subprocess.Popen(command, cwd=home, env=engine.environment(home), stdout=subprocess.DEVNULL)

    def left() -> list[str]:
        label = ["--filter", "label=breakrank.session"]
        found = [engine.docker("ps", "-aq", *label), engine.docker("network", "ls", "-q", *label)]
        return " ".join([*found, engine.docker("volume", "ls", "-q", *label)]).split()

    # Two ranks, their network and the folder that they share.
    while len(left()) < 4:
        assert owner.poll() is None, "it was over before its containers were there"
    owner.kill()
    owner.wait()
    until = time.monotonic() + 90
    while gone := left():
        assert time.monotonic() < until, gone
        time.sleep(0.1)


def test_an_engine_is_found_by_its_users_context_and_the_doctor_says_where_it_is_without_one(engine, home):
    environment = {k: v for k, v in engine.environment(home).items() if k != "DOCKER_HOST"}

    def entered(*command: str) -> str:
        whole = engine.entered(home, list(command))
        done = subprocess.run(whole, cwd=home, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    doctor = (sys.executable, "-m", "breakrank", "doctor")
    (line,) = re.findall("^docker .*$", entered(*doctor), re.MULTILINE)
    assert f"you have one that runs without root: export DOCKER_HOST={engine.host}" in line
    entered("docker", "context", "create", "mine", "--docker", f"host={engine.host}")
    entered("docker", "context", "use", "mine")
    assert json.loads((home / ".docker/config.json").read_text())["currentContext"] == "mine"
    assert re.search("^docker +yes$", entered(*doctor), re.MULTILINE)
    found = entered(
        sys.executable, "-c", "from breakrank.runners.docker.image import versions; print(versions('breakrank-torch'))"
    )
    assert "'torch'" in found
