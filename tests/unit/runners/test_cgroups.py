"""Control groups of both versions, in trees laid out as the kernel lays them out: what is found, read and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakrank.host.cgroup_files import Bound, Hierarchies
from breakrank.runners import cgroups
from breakrank.runners.cgroups import Group, find_parent, make_group

INFINITE = float("inf")
#: A user's session under systemd, delegated as by `systemd-run --user --scope -p Delegate=yes`.
APPS = "user.slice/user-1000.slice/user@1000.service/app.slice"
V2 = {
    "proc/self/mountinfo": "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    "proc/self/cgroup": f"0::/{APPS}/run-r1.scope\n",
    "proc/7/cgroup": f"0::/{APPS}/breakrank-1-2-x/rank-0\n",
    f"sys/fs/cgroup/{APPS}/cgroup.controllers": "cpu memory pids\n",
    f"sys/fs/cgroup/{APPS}/cgroup.subtree_control": "cpu memory pids\n",
    f"sys/fs/cgroup/{APPS}/run-r1.scope/cgroup.controllers": "cpu memory pids\n",
    f"sys/fs/cgroup/{APPS}/run-r1.scope/cgroup.subtree_control": "\n",
    f"sys/fs/cgroup/{APPS}/run-r1.scope/cgroup.freeze": "0\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/cgroup.controllers": "cpu memory pids\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/cgroup.freeze": "1\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/cgroup.events": "populated 1\nfrozen 1\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/memory.max": "67108864\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/memory.events": "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/cpu.max": "2000 100000\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 4\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/pids.max": "max\n",
    f"sys/fs/cgroup/{APPS}/breakrank-1-2-x/rank-0/pids.events": "max 0\n",
}
#: Root in a container of Docker with version 1, where each hierarchy shows the container's own group as its root.
V1 = {
    "proc/self/mountinfo": "".join(
        f"3{n} 29 0:3{n} /docker/ab /sys/fs/cgroup/{name} ro - cgroup cgroup rw,{name}\n"
        for n, name in enumerate(("memory", "cpu,cpuacct", "pids", "freezer"))
    ),
    "proc/self/cgroup": "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n2:pids:/docker/ab\n1:freezer:/docker/ab\n",
    "proc/7/cgroup": "4:memory:/docker/ab/r\n3:cpu,cpuacct:/docker/ab\n2:pids:/docker/ab\n1:freezer:/docker/ab/r\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/r/memory.limit_in_bytes": "67108864\n",
    "sys/fs/cgroup/memory/r/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    "sys/fs/cgroup/freezer/r/freezer.state": "FREEZING\n",
    "sys/fs/cgroup/pids/cgroup.procs": "1\n",
}


def machine(root: Path, files: dict[str, str]) -> Hierarchies:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Hierarchies(root)


def group(folder: Path, version: int) -> Group:
    folder.mkdir()
    (folder / "pids.current").write_text("5\n")
    for name in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
        (folder / name).write_text("unset")
    return Group({controller: (folder, version) for controller in ("memory", "cpu", "pids", "freezer")})


def test_limits_and_counters_of_version_2_are_read(tmp_path):
    there = machine(tmp_path, V2)
    assert there.bound(7, "memory") == Bound(67108864, 1)
    assert there.bound(7, "cpu") == Bound(0.02, 4)
    assert there.bound(7, "pids") == Bound(INFINITE, 0)
    assert there.bound(7, "freezer") == Bound(0, 1)


def test_limits_and_counters_of_version_1_are_read_where_a_container_sees_only_its_own_groups(tmp_path):
    there = machine(tmp_path, V1)
    assert there.bound(7, "memory") == Bound(67108864, 2)
    assert there.bound(7, "cpu") == Bound(INFINITE, 0)
    # A group that is still freezing does not stand still yet.
    assert there.bound(7, "freezer") == Bound(INFINITE, 0)
    # The group of all processes has no limit on their number, and no file for one.
    assert there.bound(7, "pids") == Bound(INFINITE, 0)


def test_a_process_that_is_gone_has_no_limits(tmp_path):
    assert machine(tmp_path, V2).bound(8, "memory") is None


def test_groups_of_version_2_are_made_where_controllers_are_given_on_and_not_where_processes_are(tmp_path):
    there = machine(tmp_path, V2)
    apps = tmp_path / "sys/fs/cgroup" / APPS
    assert {find_parent(there, name) for name in ("memory", "cpu", "pids")} == {(apps, 2)}
    assert find_parent(there, "freezer") == (apps / "run-r1.scope", 2)


def test_groups_of_version_1_are_made_below_our_own(tmp_path):
    there = machine(tmp_path, V1)
    assert find_parent(there, "memory") == (tmp_path / "sys/fs/cgroup/memory", 1)


def test_a_controller_that_nobody_gives_on_is_refused_with_the_cure(tmp_path):
    files = {**V2, f"sys/fs/cgroup/{APPS}/cgroup.subtree_control": "pids\n"}
    there = machine(tmp_path, files)
    assert cgroups.why_not("pids", there) == ""
    assert cgroups.why_not("memory", there).endswith("-p Delegate=yes")


def test_a_controller_that_is_mounted_nowhere_is_refused_with_the_cure(tmp_path):
    assert "no hierarchy with the controller cpu is mounted" in cgroups.why_not("cpu", machine(tmp_path, {}))


def test_a_group_is_not_made_where_its_parent_gives_nothing_on(tmp_path):
    with pytest.raises(OSError, match="does not give on the controller memory"):
        make_group({"memory": (tmp_path / "breakrank-1-2-x" / "rank-0", 2)})


@pytest.mark.parametrize(
    ("version", "written"),
    [
        (
            1,
            {
                "memory.limit_in_bytes": "1000",
                "memory.memsw.limit_in_bytes": "1000",
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "2000",
                "pids.max": "6",
                "freezer.state": "FROZEN",
            },
        ),
        (
            2,
            {
                "memory.max": "1000",
                "memory.swap.max": "0",
                "cpu.max": "2000 100000",
                "pids.max": "6",
                "cgroup.freeze": "1",
            },
        ),
    ],
)
def test_a_group_says_each_limit_in_the_words_of_its_version(tmp_path, version, written):
    folder = tmp_path / "group"
    limited = group(folder, version)
    limited.limit_memory(1000)
    limited.limit_cpu(2)
    limited.limit_processes(1)
    limited.freeze()
    assert {name: (folder / name).read_text() for name in written} == written


def test_a_group_is_never_limited_to_fewer_than_no_processes(tmp_path):
    limited = group(tmp_path / "group", 2)
    limited.limit_processes(-10)
    assert (tmp_path / "group" / "pids.max").read_text() == "0"


@pytest.mark.parametrize(
    ("version", "written"),
    [(1, {"cpu.cfs_quota_us": "-1", "freezer.state": "THAWED"}), (2, {"cpu.max": "max", "cgroup.freeze": "0"})],
)
def test_a_group_lifts_what_is_lifted_while_it_lives(tmp_path, version, written):
    folder = tmp_path / "group"
    limited = group(folder, version)
    limited.free_cpu()
    limited.thaw()
    assert {name: (folder / name).read_text() for name in written} == written


def test_a_group_without_a_controller_refuses_what_needs_it(tmp_path):
    with pytest.raises(OSError, match="no control group with the controller memory"):
        Group({"pids": (tmp_path, 2)}).limit_memory(1000)
