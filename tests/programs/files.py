"""Programs that write files, each in one way."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import torch.distributed as dist

from breakrank_agent import step, tell

RANK = int(os.environ["RANK"])
BLOCKS = 4


def _write(path, number=RANK):
    """Write blocks of a number, the rank's own unless it is given, and call it a step."""
    with open(path, "wb", buffering=0) as file:
        for _ in range(BLOCKS):
            file.write(bytes([number]) * 1000)
    step()


def both_write():
    """Write the same file on both ranks."""
    dist.init_process_group("gloo")
    _write("shared.bin")


def one_writes():
    """Write the file on rank 0 alone, for both."""
    dist.init_process_group("gloo")
    _write("shared.bin" if RANK == 0 else "own.bin", 9)


def write_before_meeting():
    """Write on each rank, meet the other rank in the store, and write again."""
    _write(f"before-{RANK}")
    dist.init_process_group("gloo")
    part = dist.new_group([0, 1])
    _write(f"between-{RANK}")
    dist.barrier(group=part)
    _write(f"after-{RANK}")


def _both(writes):
    """Write two files, and say whether they are open and closed as files are."""
    files = [writes(name) for name in ("first", "second")]
    tell("files", same=all(f.closed and f.name == n for f, n in zip(files, ("first", "second"), strict=True)))
    step()


def text():
    """Write lines of text, in an encoding, with a flush in between."""

    def writes(name):
        with open(name, "w", encoding="latin-1", newline="\r\n") as file:
            print("h\xe9llo", file=file, flush=True)
            file.writelines(["x" * 10000, "\n"])
            assert file.mode == "w" and file.encoding == "latin-1" and file.tell() == 10009
        return file

    _both(writes)


def appended():
    """Write a file, then append to it, then change it in place."""

    def writes(name):
        Path(name).write_text("one\n")
        with open(name, "a") as file:
            file.write("two\n")
        with open(name, "r+") as file:
            file.seek(1)
            file.write("x")
        return file

    _both(writes)


def unbuffered():
    """Write bytes without a buffer, and move the position."""

    def writes(name):
        with open(name, "wb", buffering=0) as file:
            assert file.write(b"abcdef") == 6
            file.seek(2)
            file.write(memoryview(b"C"))
            file.truncate(4)
            assert os.fstat(file.fileno()).st_size == 4
        return file

    _both(writes)


def clears():
    """Make a folder, and remove it as a tree."""
    Path("old/er").mkdir(parents=True)
    Path("old/er/one").write_text("1")
    shutil.rmtree("old")
    step()


def renames():
    """Write a file aside and rename it, and one that lies elsewhere, beside an open file of notes."""
    with open("notes.txt", "w") as notes:
        notes.write("begun\n")
        Path("aside").write_text("whole")
        os.replace("aside", "kept")
        elsewhere = Path(tempfile.mkdtemp(), "one")
        elsewhere.write_text("whole")
        os.rename(elsewhere, "brought")
        elsewhere.parent.rmdir()
    step()
