"""The whole catalogue leaves the machine as it was, with isolated ranks and in containers.

Goal: nothing outside of the run directories is written, deleted or changed by any strike of any case.
Method: the kernel's own record of each file (inode, mode, owner, links, size, time of the last change) is compared
before and after: in the folder that pytest runs in, in the checkout, in the home and in the folders of the machine's
configuration. In the folder that pytest runs in, the bytes are compared, too.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support import containers

from breakrank.doctor import missing

pytestmark = pytest.mark.soak

CHECKOUT = Path(__file__).parents[2]
#: The folders that are compared beside the one in which pytest runs.
OUTSIDE = (CHECKOUT, Path.home(), Path("/etc"), Path("/opt"), Path("/usr/local"), Path("/srv"), Path("/boot"))
#: The ways to run the catalogue.
WAYS = {
    "sandbox": ["--scenario-runner=sandbox"],
    "docker": [f"--scenario-image={containers.TORCH}", "--scenario-framework=torch"],
    "docker, TensorFlow": [f"--scenario-image={containers.TENSORFLOW}", "--scenario-framework=tensorflow"],
}


def state(root: Path, *without: Path, contents: bool = False) -> dict[str, tuple[object, ...]]:
    """Return the kernel's records of all files below a folder, by path; with `contents`, digests of files, too."""
    found: dict[str, tuple[object, ...]] = {}
    for where, folders, names in os.walk(root):
        folders[:] = [name for name in folders if Path(where, name) not in without]
        for path in (os.path.join(where, name) for name in (*folders, *names)):
            s = os.lstat(path)
            found[path] = (s.st_ino, s.st_mode, s.st_uid, s.st_gid, s.st_nlink, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
            if contents and stat.S_ISREG(s.st_mode):
                found[path] += (hashlib.blake2b(Path(path).read_bytes()).hexdigest(),)
    return found


def lay(folder: Path) -> None:
    """Lay a file of each kind into a folder, which a strike could take for its own."""
    for name in ("checkpoints", "data", "work"):
        (folder / name).mkdir()
        (folder / name / "last.pt").write_bytes(os.urandom(1000))
    (folder / "manifest.json").write_text("{}")
    os.link(folder / "data" / "last.pt", folder / "linked.pt")
    (folder / "elsewhere").symlink_to("data")
    os.mkfifo(folder / "pipe")


@pytest.mark.parametrize("way", WAYS)
def test_the_catalogue_changes_nothing_outside_of_its_runs(
    tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if way == "sandbox":
        if lack := missing(["netns"]):
            pytest.skip(lack)
    else:
        containers.require(WAYS[way][0].partition("=")[2])
    lay(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "breakrank.plugin", *WAYS[way]]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # Python compiles each imported module once, beside its source.
    subprocess.run([*command, "--scenario=canary"], cwd=tmp_path, capture_output=True)
    runs = tmp_path / ".breakrank"
    inner = [CHECKOUT / name for name in (".git", ".docker", ".breakrank", ".pytest_cache")]
    before = [state(tmp_path, runs, contents=True), *(state(root, *inner) for root in OUTSIDE)]
    done = subprocess.run([*command, "--scenario=all", "-n2"], cwd=tmp_path, capture_output=True, text=True)
    after = [state(tmp_path, runs, contents=True), *(state(root, *inner) for root in OUTSIDE)]
    changed = [
        path
        for b, a in zip(before, after, strict=True)
        for path in sorted(b.keys() | a.keys())
        if b.get(path) != a.get(path)
    ]
    headline = re.findall(r"^\d+ (?:as recorded|fine), .*$", done.stdout, re.MULTILINE)
    with capsys.disabled():
        print(f"\n{way}: {headline}; {sum(map(len, before))} files and folders outside, {len(changed)} changed")
    assert headline and done.returncode == 0, done.stdout[-5000:]
    assert changed == []
