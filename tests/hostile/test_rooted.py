"""Paths of somebody else never lead out of their root, with openat2(2) and without it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support import canary

from breakrank_agent.kernel import rooted
from breakrank_agent.kernel.rooted import OutsideError, WorkingFolder, opened, resolve


@pytest.fixture(params=["openat2", "walk"])
def way(request, monkeypatch):
    """Choose one of both ways to resolve a path: the kernel's, or ours for a kernel that has none."""
    if request.param == "walk":

        def refuse(*_):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

        monkeypatch.setattr(rooted, "_by_the_kernel", refuse)
    else:
        monkeypatch.setattr(rooted, "_by_a_walk", pytest.fail)
    return request.param


@pytest.fixture
def root(tmp_path):
    """Return a folder that stands for a root, with a working folder in it, beside a file outside of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    (tmp_path / "root/work/real").mkdir(parents=True)
    (tmp_path / "root/work/real/file").write_text("inside")
    (tmp_path / "root/elsewhere").mkdir()
    (tmp_path / "root/elsewhere/file").write_text("elsewhere")
    return tmp_path / "root"


def led_to(root: Path, path: str, links: bool = True) -> str:
    """Return the target of a path, as it is seen from the root."""
    with opened(os.open(root, os.O_PATH)) as top, opened(resolve(top, path, links)) as found:
        return os.readlink(f"/proc/self/fd/{found}").removeprefix(str(root)) or "/"


@pytest.mark.parametrize(
    ("link", "to", "leads"),
    [
        ("work/absolute", "/elsewhere/file", "/elsewhere/file"),
        ("work/relative", "real/file", "/work/real/file"),
        ("work/up", "../elsewhere/file", "/elsewhere/file"),
        ("work/far-up", "../../../../../../elsewhere/file", "/elsewhere/file"),
        ("work/through", "real/../real/./file", "/work/real/file"),
        ("work/top", "/..", "/"),
    ],
)
def test_a_link_leads_where_the_root_says(way, root, link, to, leads):
    (root / link).symlink_to(to)
    assert led_to(root, link) == leads


@pytest.mark.parametrize("path", ["../outside/secret", "/../outside/secret", "work/../../outside/secret"])
def test_no_path_leads_out_of_the_root(way, root, path):
    with pytest.raises(FileNotFoundError):
        led_to(root, path)


def test_a_link_to_a_path_of_ours_is_taken_for_one_of_the_root(way, root, tmp_path):
    (root / "work/link").symlink_to(tmp_path / "outside/secret")
    with pytest.raises(FileNotFoundError):
        led_to(root, "work/link")


def test_a_magic_link_leads_to_nothing_outside(way):
    # Through /proc/self/root and its like the kernel goes anywhere.
    with opened(os.open("/proc", os.O_PATH)) as top:
        for path in ("self/root/etc", "self/cwd/", f"self/fd/{top}/.."):
            with pytest.raises(OSError):
                os.close(resolve(top, path))


@pytest.mark.parametrize("links", [True, False])
def test_loops_and_dangling_links_are_errors(way, root, links):
    (root / "work/a").symlink_to("b")
    (root / "work/b").symlink_to("a")
    (root / "work/dangling").symlink_to("nothing")
    with pytest.raises(OSError) as error:
        led_to(root, "work/a", links)
    assert error.value.errno == errno.ELOOP
    with pytest.raises(OSError) as error:
        led_to(root, "work/dangling", links)
    assert error.value.errno == (errno.ENOENT if links else errno.ELOOP)


def test_a_path_without_links_is_found_where_links_are_refused(way, root):
    (root / "work/link").symlink_to("real")
    assert led_to(root, "/work/real/file", links=False) == "/work/real/file"
    with pytest.raises(OSError) as error:
        led_to(root, "work/link/file", links=False)
    assert error.value.errno == errno.ELOOP


@pytest.mark.parametrize("path", ["work/real/file/..", "work/real/file/x", "work/real/file/.", "work/real/file/"])
def test_a_file_is_no_folder(way, root, path):
    with pytest.raises(NotADirectoryError):
        led_to(root, path)


def test_a_name_with_a_zero_byte_is_refused(way, root):
    with pytest.raises(OSError) as error:
        led_to(root, "work\0/../../outside")
    assert error.value.errno == errno.EINVAL


@pytest.fixture
def work(root):
    """Yield the working folder as it lies in our own root."""
    with WorkingFolder(0, str(root / "work")) as folder:
        yield folder


def test_what_leads_out_of_the_working_folder_is_refused_with_where_it_leads(way, root, work):
    (root / "work/data").symlink_to(root / "elsewhere")
    (root / "work/more").symlink_to("../elsewhere")
    for path, where in (
        ("data/file", "elsewhere/file"),
        ("more", "elsewhere"),
        ("../elsewhere", "elsewhere"),
        (str(root / "elsewhere"), "elsewhere"),
        ("..", ""),
    ):
        with pytest.raises(OutsideError) as error:
            work.find(path)
        assert str(error.value) == f"{path} leads out of the working folder, to {root / where}".rstrip("/")


def test_what_lies_inside_is_found_by_any_way_to_it(way, root, work):
    (root / "work/link").symlink_to(root / "work/real")
    (root / "work/chain").symlink_to("link")
    for path in ("real/file", "link/file", "chain/file", "real/../chain/file", str(root / "work/real/file")):
        assert work.read(path, 100) == b"inside"
        assert work.real(path) == str(root / "work/real/file")
    assert work.real("chain/to-come") == str(root / "work/real/to-come")


def test_a_folder_is_made_inside_and_nowhere_else(way, root, work):
    (root / "work/out").symlink_to("../elsewhere")
    (root / "work/dangling").symlink_to("../elsewhere/new")
    (root / "work/link").symlink_to("real")
    os.close(work.make("link/new/newer"))
    assert (root / "work/real/new/newer").is_dir()
    for path in ("out/new", "dangling", "dangling/new", "../new", str(root / "elsewhere/new")):
        with pytest.raises(OSError):
            os.close(work.make(path))
    assert sorted(path.name for path in (root / "elsewhere").iterdir()) == ["file"]
    assert sorted(path.name for path in root.iterdir()) == ["elsewhere", "work"]
    with pytest.raises(OSError):
        work.make("real/file")


def test_a_file_that_is_replaced_is_not_written_through(way, root, work):
    outside, inside = root / "elsewhere/file", root / "work/hard"
    os.link(outside, inside)
    inside.chmod(0o640)
    before = outside.stat()
    with open(inside, "rb") as held:
        work.replace("hard", b"changed")
        assert held.read() == b"elsewhere"
    assert inside.read_bytes() == b"changed" and stat.S_IMODE(inside.stat().st_mode) == 0o640
    after = outside.stat()
    assert outside.read_text() == "elsewhere" and after.st_nlink == 1
    assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)
    assert sorted(path.name for path in (root / "work").iterdir()) == ["hard", "real"]


def test_only_regular_files_are_read_and_nothing_is_waited_for(way, root, work):
    os.mkfifo(root / "work/fifo")
    (root / "work/device").symlink_to("/dev/zero")
    for path in ("fifo", "real", "device"):
        with pytest.raises(OSError):
            work.read(path, 100)
    (root / "work/long").write_bytes(b"x" * 101)
    with pytest.raises(OSError) as error:
        work.read("long", 100)
    assert error.value.errno == errno.EFBIG


def test_a_pattern_matches_what_lies_inside(way, root, work):
    (root / "work/link").symlink_to("real")
    (root / "work/out").symlink_to("../elsewhere")
    (root / "work/loop").symlink_to("loop")
    (root / "work/real/self").symlink_to(".")
    assert work.glob("*/file") == ["link/file", "real/file"]
    assert work.glob("**/file") == ["real/file"]
    assert work.glob("real/f?le") == ["real/file"]
    assert work.glob("nothing-*") == work.glob("loop") == []
    for pattern in ("out/file", "out", "../elsewhere/*", "o*t"):
        with pytest.raises(OutsideError):
            work.glob(pattern)


def test_what_is_nearest_lies_inside(way, root, work):
    (root / "work/out").symlink_to("../elsewhere")
    for path, nearest in (("real/a/b", "work/real"), ("a", "work"), ("real/file", "work/real/file")):
        with opened(work.nearest(path)) as found:
            assert work.path_of(found) == str(root / nearest)
    with pytest.raises(OutsideError):
        work.nearest("out/a/b")


#: Mounts something below the working folder, twice, and looks there; in mounts of its own.
BELOW = """
import os, subprocess, sys
from breakrank_agent.kernel import rooted
from breakrank_agent.kernel.rooted import OutsideError, WorkingFolder
root = sys.argv[1]
if sys.argv[2] == "walk":
    rooted._by_the_kernel = rooted._by_a_walk
subprocess.run(["mount", "--bind", f"{root}/elsewhere", f"{root}/work/real"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "none", f"{root}/work/disk"], check=True)
subprocess.run(["mount", "--bind", f"{root}/work/own", f"{root}/work/own"], check=True)
with WorkingFolder(0, f"{root}/work", carried=("own", "nothing")) as work:
    for path in ("real", "real/file", "disk", "link/file", "own/file"):
        try:
            os.close(work.find(path))
            print(path, "inside")
        except OutsideError as error:
            print(path, str(error).rpartition(",")[2].replace(root, ""))
"""


def test_what_is_mounted_below_lies_outside_unless_the_view_has_made_it(way, root):
    for name in ("disk", "own"):
        (root / "work" / name).mkdir()
    (root / "work/own/file").write_text("own")
    (root / "work/link").symlink_to("real")
    alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    done = subprocess.run(
        [*alone, sys.executable, "-c", BELOW, str(root), way], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "real  to what is mounted at or above /work/real",
        "real/file  to what is mounted at or above /work/real/file",
        "disk  to what is mounted at or above /work/disk",
        "link/file  to what is mounted at or above /work/real/file",
        "own/file inside",
    ]


#: Exchanges two names as fast as it can (renameat2(2), RENAME_EXCHANGE), until it is told to stop.
SWAPS = """
import ctypes, os, select, sys
libc, one, other = ctypes.CDLL(None), *(os.fsencode(path) for path in sys.argv[1:])
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    libc.renameat2(-100, one, -100, other, 2)
"""


def test_what_is_swapped_while_it_is_worked_on_stays_as_it_is_outside(way, root, work, tmp_path):
    canary.lay(tmp_path / "disk")
    canary.lay(root / "work/data")
    (root / "work/link").symlink_to(tmp_path / "disk")
    before = canary.seen(tmp_path / "disk")
    command = [sys.executable, "-c", SWAPS, str(root / "work/data"), str(root / "work/link")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as swapping:
        assert swapping.stdout.readline() == "ready\n"
        for number in range(300):
            with contextlib.suppress(OSError):
                work.replace("data/checkpoints/old.bin", b"changed")
            with contextlib.suppress(OSError):
                os.close(work.make(f"data/checkpoints/{number}/made"))
            with contextlib.suppress(OSError):
                assert work.read("data/checkpoints/kept.bin", 10_000) == b"kept.bin" * 100
        swapping.stdin.close()
    assert canary.seen(tmp_path / "disk") == before
    real = next(path for path in (root / "work/data", root / "work/link") if not path.is_symlink())
    work.replace(f"{real.name}/checkpoints/old.bin", b"changed")
    assert (real / "checkpoints/old.bin").read_bytes() == b"changed"
