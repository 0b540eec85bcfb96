"""Ranks in containers: the same verdicts as without, the image's own Python, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import containers
from support.ground import PYTEST

from breakrank.doctor import missing_for
from breakrank.errors import BreakrankError
from breakrank.host.session import Session
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.catalogue import load_scenarios, select
from breakrank.runners.docker import part
from breakrank.runners.process import stage_agent
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.fault import Strike


def plan_of(name: str, image: str) -> tuple[Plan, object]:
    """Return the plan of `scenario::case` in containers of an image, and the case's record."""
    ((scenario, case),) = select(load_scenarios(), [name])
    plan = make_plan(scenario, case, Choices(runner="docker", image=image))
    return plan, case.record("docker", plan.ranks)


@pytest.fixture(scope="module")
def image() -> str:
    return containers.require(containers.TORCH)


def docker(*arguments: str) -> str:
    """Run docker's own command; return its output."""
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def labelled(session: str) -> list[str]:
    """Return the containers, networks and volumes that carry a session's id, as the engine lists them."""
    found: list[str] = []
    for kind in (["ps", "-a"], ["network", "ls"], ["volume", "ls"]):
        command = ["docker", *kind, "-q", "--filter", f"label={part('sweep').LABEL}={session}"]
        found += subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return found


@pytest.mark.parametrize(
    "name",
    [
        "killed_rank::torch-resuming",
        "race_condition::torch-hogwild",
        "cut_link::torch-limited",
        # These strikes act on the container's own mounts and names.
        "full_disk::torch-in-place",
        "dns_failure::torch-own-master",
    ],
)
def test_a_case_comes_to_its_record_in_containers(bench, image, name):
    for scenario, case in select(load_scenarios(), [name]):
        plan = make_plan(scenario, case, Choices(runner="docker", image=image))
        result = bench.run(Request(plan, case.record("docker", plan.ranks)))
        assert result.as_recorded, result.verdict


def test_a_port_where_a_store_was_just_now_can_be_taken(bench, image):
    for name in ("baseline::torch-ddp", "port_in_use::torch-stranger"):
        result = bench.run(Request(*plan_of(name, image)))
        assert result.as_recorded, result.verdict.sentence()


def test_a_container_that_the_engine_takes_off_its_network_is_where_it_was_when_the_job_starts_again(bench, image):
    plan, _ = plan_of("cut_link::torch-limited", image)
    (cut,) = plan.strikes
    off = Strike(faults.DisconnectContainer(), cut.trigger, cut.ranks)
    result = bench.run(Request(replace(plan, strikes=(off,), restarts=1)))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    first, second = (load_run(result.folder).history.attempt(attempt) for attempt in (0, 1))
    assert [lived.status for lived in first] != [0, 0]
    assert [lived.status for lived in second] == [0, 0]


@pytest.fixture(scope="module")
def inside(bench, image) -> Result:
    """A sound run in containers."""
    plan, record = plan_of("baseline::torch-ddp", image)
    result = bench.run(Request(plan, record))
    assert result.as_recorded, result.verdict
    return result


def test_a_run_in_containers_has_the_digest_of_a_run_without(bench, inside):
    outside = bench.run(Request(replace(inside.plan, runner="process", image="")))
    assert inside.verdict.digest == outside.verdict.digest


def test_the_ranks_run_in_the_images_own_python(inside, image):
    has = part("image").versions(image)
    begun = [lived.events[0] for lived in load_run(inside.folder).history.last]
    assert {event["python"] for event in begun} == {has["python"]}
    assert json.loads((inside.folder / "meta.json").read_text())["versions"] == has


#: A program that needs nothing but Python.
ALONE = """
from breakrank_agent import step


def main():
    for _ in range(3):
        step()
"""


@pytest.mark.parametrize("python", containers.BARE)
def test_the_agent_boots_where_there_is_nothing_but_python(python, tmp_path):
    image = containers.require(containers.BARE[python])
    (tmp_path / "alone.py").write_text(ALONE)
    plan = Plan("test", "alone", "alone:main", framework="none", steps=3, oracles=("ends",))
    with Bench(tmp_path / "runs") as bench:
        result = bench.run(Request(replace(plan, runner="docker", image=image), programs=tmp_path))
    last = load_run(result.folder).history.last
    assert [(lived.status, lived.last_step) for lived in last] == [(0, 3), (0, 3)]
    assert all(lived.events[0]["python"].startswith(f"{python}.") for lived in last)


def test_an_image_without_python_leaves_no_container():
    image = containers.require(containers.BARE["3.13"])

    made = docker("create", image, "true")
    other = docker("commit", "--change", "USER nobody-at-all", made)
    docker("rm", made)
    try:
        with pytest.raises(BreakrankError, match=r"has no python3 that runs: .*nobody-at-all"):
            part("image").versions(other)
        assert docker("ps", "-aq", "--filter", f"ancestor={other}") == ""
    finally:
        docker("rmi", "--force", other)


WRITING = """
import os
from breakrank_agent import step


def main():
    with open("written-%s.txt" % os.environ["RANK"], "w") as file:
        file.write("%d:%d" % (os.getuid(), os.getgid()))
    step()
"""


@pytest.mark.parametrize(("user", "numbers"), [("1234", "1234:0"), ("worker:team", "1234:77")])
def test_ranks_run_as_the_images_own_user_who_may_write_where_they_work(user, numbers, tmp_path):
    image = containers.require(containers.BARE["3.13"])
    if os.geteuid() != 0:
        pytest.skip("whoever is not root has the ranks run as themselves; run the tests as root")

    made = docker("create", image, "true")
    if ":" in user:
        for name, line in (("passwd", "worker:x:1234:5::/:/bin/sh"), ("group", "team:x:77:")):
            (tmp_path / name).write_text(f"root:x:0:0::/:/bin/sh\n{line}\n")
            docker("cp", str(tmp_path / name), f"{made}:/etc/{name}")
    other = docker("commit", "--change", f"USER {user}", made)
    docker("rm", made)
    (tmp_path / "alone.py").write_text(WRITING)
    plan = Plan("test", "alone", "alone:main", framework="none", steps=1, oracles=("ends",), runner="docker")
    try:
        with Bench(tmp_path / "runs") as bench:
            result = bench.run(Request(replace(plan, image=other), programs=tmp_path))
    finally:
        docker("rmi", "--force", other)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert [(result.folder / f"work/written-{rank}.txt").read_text() for rank in (0, 1)] == [numbers] * 2


def test_a_case_whose_framework_an_image_lacks_is_refused_by_name():
    image = containers.require(containers.BARE["3.13"])
    assert part("image").lacking(image, "torch").startswith(f"there is no torch in the image {image} (Python 3.13")


def test_what_an_image_has_is_known_by_its_normalized_name(tmp_path):
    """TensorFlow's own package is called `tensorflow_cpu` in its metadata."""
    about = tmp_path / "Some_Frame.work-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: Some_Frame.work\nVersion: 1.0\n")
    ask = [sys.executable, "-c", part("image").ASK, "own", "no-such-program"]
    (tmp_path / "own").touch(0o755)
    found = {"PYTHONPATH": str(tmp_path), "PATH": str(tmp_path)}
    done = subprocess.run(ask, env=found, check=True, capture_output=True)
    versions, programs = json.loads(done.stdout)
    assert versions["some-frame-work"] == "1.0" and programs == ["own"]


def test_a_program_that_ranks_start_is_looked_for_in_their_image(image):
    """The machine's own programs do not count: a slim image has no compiler."""
    plan, _ = plan_of("baseline::torch-ddp", image)
    assert missing_for(plan, ["compiler"]) == (
        f"needs compiler: there is no program cc in the image {image}; install it there"
    )
    assert not missing_for(plan)


def test_an_image_that_is_nowhere_is_one_line():
    reason = containers.lacking()
    if reason:
        pytest.skip(reason)
    with pytest.raises(BreakrankError, match="there is no image no-such-image, and it cannot be pulled"):
        part("image").versions("no-such-image")


SCRIPT = """
import os
import sys
import breakrank_agent

print(sys.version.split()[0], os.environ["RANK"], os.environ["MASTER_ADDR"], os.path.exists("notes.txt"))
with open("written-%s.txt" % os.environ["RANK"], "w") as file:
    file.write("mine")
"""


def test_a_script_runs_in_containers_and_its_folder_stays_as_it_was(tmp_path):
    image = containers.require(containers.BARE["3.9"])
    where = tmp_path / "project"
    where.mkdir()
    (where / "train.py").write_text(SCRIPT)
    (where / "notes.txt").write_text("kept")
    plan = Plan("test", "train.py", "", framework="none", command=("train.py",), pin=False, steps=0, oracles=("ends",))
    with Bench(tmp_path / "runs") as bench:
        result = bench.run(Request(replace(plan, runner="docker", image=image), where=where))
    printed = [(result.folder / f"attempt-0/rank-{rank}.out").read_text().split() for rank in (0, 1)]
    assert [words[0][:4] + words[1] + words[3] for words in printed] == ["3.9.0True", "3.9.1True"]
    assert sorted(path.name for path in where.iterdir()) == ["notes.txt", "train.py"]
    assert {path.name for path in (result.folder / "work").glob("written-*")} == {"written-0.txt", "written-1.txt"}


def test_a_script_has_the_environment_that_the_engine_gives_to_any(tmp_path):
    """An image may set no PATH, in which compilers and each start of a program look; no image sets HOME."""
    image = containers.require(containers.BARE["3.13"])
    says = "import json, os; print(json.dumps(dict(os.environ)))"
    usual = json.loads(docker("run", "--rm", image, "python3", "-c", says))
    del usual["HOSTNAME"]
    (tmp_path / "train.py").write_text(says)
    plan = Plan("test", "train.py", "", framework="none", command=("train.py",), pin=False, steps=0, oracles=("ends",))
    with Bench(tmp_path / "runs") as bench:
        result = bench.run(Request(replace(plan, runner="docker", image=image), where=tmp_path))
    found = [json.loads((result.folder / f"attempt-0/rank-{rank}.out").read_text()) for rank in (0, 1)]
    assert {"PATH", "HOME"} <= usual.keys()
    assert all(usual.items() <= env.items() for env in found)
    hosts = {env["HOSTNAME"] for env in found}
    assert len(hosts) == 2 and all(hosts)


def test_two_sessions_leave_each_others_containers_alone(tmp_path):
    image = containers.require(containers.BARE["3.13"])
    cluster_of, sweep, staged = part("cluster"), part("sweep").sweep, stage_agent(tmp_path)
    env = {"PYTHONPATH": f"{cluster_of.SHARED}/{staged.name}"}
    one, other = Session(), Session()
    try:
        clusters = [cluster_of.Cluster(session, staged, image, "", env) for session in (one, other)]
        for cluster in clusters:
            cluster.grow(2)
        there = labelled(other.id)
        clusters[0].close()
        assert sweep() == []
        assert len(sweep(show=True, session=other.id)) == 4
        assert labelled(one.id) == [] and sorted(labelled(other.id)) == sorted(there) and len(there) == 4
        assert len(sweep(session=other.id)) == 4
        assert labelled(other.id) == []
    finally:
        one.close()
        other.close()


HELD = """
import os, sys
from pathlib import Path
from breakrank.runners.docker import part
from breakrank.runners.process import stage_agent
from breakrank.host.session import Session

session, staged = Session(), stage_agent(Path(sys.argv[1]))
print(session.id, session.supervisor_pid, flush=True)
cluster = part("cluster").Cluster(session, staged, sys.argv[2], "", {"PYTHONPATH": f"/breakrank/{staged.name}"})
cluster.grow(2)
print("stands", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", ["the owner", "the owner and its supervisor"])
def test_nothing_is_left_in_the_engine_when_who_started_it_is_killed(tmp_path, killed):
    image = containers.require(containers.BARE["3.13"])
    owner = subprocess.Popen(
        [sys.executable, "-c", HELD, str(tmp_path), image], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    session, supervisor = owner.stdout.readline().split()
    assert owner.stdout.readline() == "stands\n"
    assert len(labelled(session)) == 4
    if killed == "the owner and its supervisor":
        os.kill(int(supervisor), signal.SIGKILL)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    if killed == "the owner and its supervisor":
        done = subprocess.run([sys.executable, "-m", "breakrank", "sweep"], capture_output=True, text=True, check=True)
        assert re.search(rf"network breakrank-{session}-\w+", done.stdout), done.stdout
    wait_until_gone(session)


def wait_until_gone(session: str) -> None:
    """Wait until the engine lists nothing of a session any more; the supervisor has the engine remove all of it."""
    until = time.monotonic() + 60
    while left := labelled(session):
        assert time.monotonic() < until, left
        time.sleep(0.1)


FROM_INSIDE = """
import sys
from dataclasses import replace
from pathlib import Path
from pathlib import Path
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.plan import Plan, Strike

plan = Plan("test", "alone", "alone:main", framework="none", steps=3, oracles=("ends",))
with Bench(Path("/tmp/runs")) as bench:
    result = bench.run(Request(replace(plan, runner="docker", image=sys.argv[1]), programs=Path("/programs")))
print(result.verdict.outcome, result.verdict.digest)
"""


def test_pytest_may_itself_be_in_a_container_with_the_engines_socket(tmp_path):
    """Our interpreter, mounted into a container, starts containers beside its own, which have none of its paths."""
    image = containers.require(containers.BARE["3.13"])
    outer = containers.require(containers.TORCH)
    (tmp_path / "alone.py").write_text(ALONE)
    ours = {sys.base_prefix, sys.prefix, str(Path(__file__).parents[2]), *(p for p in sys.path if os.path.isdir(p))}
    mounts = [word for path in sorted(ours) for word in ("-v", f"{path}:{path}:ro")]
    mounts += ["-v", "/var/run/docker.sock:/var/run/docker.sock", "-v", f"{tmp_path}:/programs:ro"]
    start = ["docker", "run", "--rm", "-w", "/", *mounts, outer, sys.executable]
    if subprocess.run([*start, "-c", "import ctypes"]).returncode != 0:
        pytest.skip(f"the interpreter {sys.executable} does not run in the image {outer}")
    done = subprocess.run([*start, "-c", FROM_INSIDE, image], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plan = Plan("test", "alone", "alone:main", framework="none", steps=3, oracles=("ends",))
    with Bench(tmp_path / "runs") as bench:
        result = bench.run(Request(replace(plan, runner="docker", image=image), programs=tmp_path))
    assert done.stdout.split() == ["SURVIVED", result.verdict.digest]


def test_one_command_validates_an_image_against_another(tmp_path):
    old, new = containers.require(containers.TORCH), containers.require(containers.BARE["3.13"])
    command = [sys.executable, "-m", "breakrank", "image", new, "--against", old, "--scenario", "baseline::torch-ddp"]
    done = subprocess.run([*command, "--runs", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert f"{new} against {old}: 0 of 1 cases tested on both" in done.stdout
    assert "baseline::torch-ddp [docker]: SURVIVED, not tested now: there is no torch in the image" in done.stdout
    assert re.search(r"^versions: .*python 3\.11\.\d+ -> 3\.13\.\d+", done.stdout, re.MULTILINE)
    assert re.search(rf"^only in {old}: .*torch \S+", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1] == "too much was not tested to say that nothing got worse"


def test_an_image_that_is_not_there_is_said_before_anything_runs(tmp_path):
    old = containers.require(containers.BARE["3.13"])
    command = [sys.executable, "-m", "breakrank", "image", "no-such-image", "--against", old, "--runs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 4 and not done.stdout
    assert "there is no image no-such-image, and it cannot be pulled" in done.stderr


FUSSY = """
import sys
from breakrank_agent import step


def main():
    step()
    sys.exit(sys.version_info >= (3, 13))
"""
FUSSY_SCENARIO = '''
"""A program that a newer Python breaks."""

from breakrank import DETECTED, Case, Job, Scenario

SCENARIO = Scenario(
    job=Job(ranks=2, steps=1, data=""),
    oracles=["ends"],
    cases=[Case("fussy", "fussy:main", framework="none", expect=DETECTED)],
)
'''


def test_a_case_that_gets_worse_on_a_new_image_fails_the_session_though_it_is_as_recorded(tmp_path):
    old, new = (containers.require(image) for image in containers.BARE.values())
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/fussy.py").write_text(FUSSY)
    (tmp_path / "fussy.py").write_text(FUSSY_SCENARIO)
    (tmp_path / "pytest.ini").write_text("[pytest]\nscenario_paths = .\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}

    def pytest_on(image: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [*PYTEST, "--scenario=fussy", f"--scenario-image={image}", *more]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    early = pytest_on(new, f"--scenario-compare={old}")
    assert early.returncode == 4 and f"there is no run on {old} to compare with" in early.stderr
    first = pytest_on(old)
    assert "SURVIVED" in first.stdout and first.returncode == 1, first.stdout
    second = pytest_on(new, f"--scenario-compare={old}")
    assert "1 as recorded, 0 changed, 0 not tested" in second.stdout, second.stdout
    assert "  fussy::fussy [docker]: SURVIVED became DETECTED" in second.stdout
    assert re.search(r"^versions: python 3\.9\.\d+ -> 3\.13\.\d+$", second.stdout, re.MULTILINE), second.stdout
    assert second.returncode == 1
