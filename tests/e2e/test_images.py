"""An image that is validated: each image is a session of the history, with its digest, and both are on one page."""

from __future__ import annotations

import os
import subprocess
import sys

from support import containers

from breakrank.memory.entries import IMAGE
from breakrank.memory.reading import pair, read


def test_two_images_are_two_sessions_with_their_digests_and_two_columns_of_one_page(tmp_path):
    image = containers.require(containers.TORCH)
    inspected = subprocess.run(
        ["docker", "image", "inspect", "--format={{.Id}}", image], capture_output=True, text=True, check=True
    )
    words = [sys.executable, "-m", "breakrank", "image", f"{image}:latest", "--against", image, "--runs", "runs"]
    done = subprocess.run(
        [*words, "--scenario=truncated_shard"], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr

    memory = read(tmp_path / "runs")
    old, new = memory.sessions
    assert [(one.image, one.kind, one.exit) for one in (old, new)] == [(image, IMAGE, 0), (f"{image}:latest", IMAGE, 0)]
    assert {one.image_id for one in (old, new)} == {inspected.stdout.strip()}
    assert (new, old) == pair(memory)
    before, after = (memory.entries[one.id] for one in (old, new))
    assert len(before) == old.selected > 0
    # Cases of a framework that the image does not have are no results of it.
    assert {entry.runner for entry in (*before, *after)} == {"docker"} and all(entry.tested for entry in after)
    assert [(e.name, e.digest, e.as_recorded) for e in before] == [(e.name, e.digest, e.as_recorded) for e in after]
    assert all(os.path.isdir(tmp_path / "runs" / entry.folder) for entry in after)

    page = (tmp_path / "runs" / "image" / "index.html").read_text()
    assert page.count(f'title="{old.image_id}"') == 4
    assert f"report: {tmp_path / 'runs' / 'image' / 'index.html'}" in done.stdout
