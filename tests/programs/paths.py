"""Two ranks and the same path, without synchronisation between them (`RACY`), and with it (`CLEAN`)."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import shutil
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from breakrank_agent import step


def racy() -> None:
    """Run all racy variants, each with a path of its own."""
    go(RACY)


def clean() -> None:
    """Run all clean variants, each with a path of its own."""
    go(CLEAN)


def go(variants) -> None:
    dist.init_process_group("gloo")
    for variant in variants:
        name = Path(f"{variant.__name__}.bin")
        if dist.get_rank() == 0 and variant in (both_clear, one_clears_then_both_write):
            name.mkdir()
            (name / "old.bin").write_bytes(b"before")
        elif dist.get_rank() == 0 and variant not in (both_make, both_have_a_folder):
            name.write_bytes(b"before" * 5000)
        dist.barrier()
        variant(dist.get_rank(), name)
        dist.barrier()
    step()
    dist.destroy_process_group()


# --- racy variants


def both_write(rank, path):
    path.write_bytes(b"after")


def both_save(rank, path):
    torch.save(torch.ones(1), path)


def one_writes_one_reads(rank, path):
    path.write_bytes(b"after") if rank == 0 else path.read_bytes()


def one_saves_one_loads(rank, path):
    if rank == 0:
        torch.save(torch.ones(1), path)
    else:
        with contextlib.suppress(Exception):
            torch.load(path)


def both_rename(rank, path):
    own = path.with_suffix(f".{rank}")
    own.write_bytes(b"after")
    os.replace(own, path)


def one_writes_one_renames(rank, path):
    if rank == 0:
        path.write_bytes(b"after")
    else:
        own = path.with_suffix(".tmp")
        own.write_bytes(b"after")
        os.replace(own, path)


def one_removes_one_reads(rank, path):
    with contextlib.suppress(FileNotFoundError):
        path.unlink() if rank == 0 else path.read_bytes()


def one_moves_one_reads(rank, path):
    with contextlib.suppress(FileNotFoundError):
        path.rename("moved.bin") if rank == 0 else path.read_bytes()


def one_truncates_one_reads(rank, path):
    os.truncate(path, 1) if rank == 0 else path.read_bytes()


def both_make(rank, path):
    with contextlib.suppress(FileExistsError):
        path.mkdir()


def both_clear(rank, path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(exist_ok=True)


def one_writes_the_other_when_told_by_nobody(rank, path):
    """A barrier of one rank alone orders nothing."""
    alone = dist.new_group([0])
    if rank == 0:
        path.write_bytes(b"after")
        dist.barrier(alone)
    else:
        path.write_bytes(b"last")


def both_write_in_place(rank, path):
    with open(path, "r+b") as file:
        file.seek(100 * rank)
        file.write(bytes(101))


def one_writes_in_place_one_reads(rank, path):
    with open(path, "r+b", buffering=0) as file:
        file.seek(90 * (1 - rank))
        file.write(bytes(10)) if rank == 0 else file.read(91)


def both_write_by_descriptor(rank, path):
    file = os.open(path, os.O_RDWR)
    if rank == 0:
        os.lseek(file, 50, os.SEEK_SET)
        os.write(file, bytes(10))
    else:
        os.pwrite(file, bytes(10), 59)
    os.close(file)


def one_appends_one_reads(rank, path):
    if rank == 0:
        with open(path, "a") as file:
            file.write("more")
    else:
        path.read_text()


def one_maps_one_reads(rank, path):
    if rank == 0:
        np.memmap(path, np.uint8, "r+", shape=(8,))[:] = 1
    else:
        path.read_bytes()


def both_append(rank, path):
    with open(path, "a") as file:
        file.write("more")


RACY = [
    both_write,
    both_save,
    one_writes_one_reads,
    one_saves_one_loads,
    both_rename,
    one_writes_one_renames,
    one_removes_one_reads,
    one_moves_one_reads,
    one_truncates_one_reads,
    both_make,
    both_clear,
    one_writes_the_other_when_told_by_nobody,
    both_write_in_place,
    one_writes_in_place_one_reads,
    both_write_by_descriptor,
    one_appends_one_reads,
    one_maps_one_reads,
    both_append,
]

# --- clean variants


def both_read(rank, path):
    path.read_bytes()


def each_writes_its_own(rank, path):
    path.with_suffix(f".{rank}").write_bytes(b"after")


def one_writes_then_the_other_reads(rank, path):
    if rank == 0:
        path.write_bytes(b"after")
    dist.barrier()
    path.read_bytes()


def one_writes_then_the_other(rank, path):
    if rank == 0:
        path.write_bytes(b"after")
    dist.barrier()
    if rank == 1:
        path.write_bytes(b"last")


def one_saves_and_broadcasts(rank, path):
    if rank == 0:
        torch.save(torch.ones(1), path)
    dist.broadcast(torch.ones(1), src=0)
    torch.load(path)


def one_writes_and_sends(rank, path):
    word = torch.ones(1)
    if rank == 0:
        path.write_bytes(b"after")
        dist.send(word, 1)
    else:
        dist.recv(word, 0)
        path.write_bytes(b"last")


def one_renames_one_reads(rank, path):
    if rank == 0:
        own = path.with_suffix(".tmp")
        own.write_bytes(b"after")
        os.replace(own, path)
    else:
        path.read_bytes()


def each_renames_in_turn(rank, path):
    for turn in range(2):
        if turn == rank:
            own = path.with_suffix(f".{rank}")
            own.write_bytes(b"after")
            os.replace(own, path)
        dist.barrier()


def both_have_a_folder(rank, path):
    path.mkdir(exist_ok=True)
    os.makedirs(path / "deep", exist_ok=True)
    (path / f"{rank}.bin").write_bytes(b"own")


def both_write_under_a_lock(rank, path):
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path.write_bytes(b"after")
        fcntl.flock(lock, fcntl.LOCK_UN)


def one_clears_then_both_write(rank, path):
    if rank == 0:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
    dist.barrier()
    (path / f"{rank}.bin").write_bytes(b"own")


def one_removes_when_both_have_read(rank, path):
    path.read_bytes()
    dist.barrier()
    if rank == 0:
        path.unlink()


def each_writes_its_part_in_place(rank, path):
    with open(path, "r+b") as file:
        for part in range(rank, 8, 2):
            file.seek(1000 * part)
            file.write(bytes(1000))
        file.seek(1000 * rank)
        assert file.read(1000) == bytes(1000)


def each_writes_its_part_by_descriptor(rank, path):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes([rank]) * 10, 10 * rank)
    os.lseek(file, 100 + 10 * rank, os.SEEK_SET)
    os.write(file, bytes(10))
    assert os.pread(file, 10, 10 * rank) == bytes([rank]) * 10
    os.close(file)


def each_writes_its_part_of_a_mapping(rank, path):
    mapped = np.memmap(path, np.uint8, "r+")
    mapped[rank * 10 : rank * 10 + 10] = rank
    mapped.flush()


def one_writes_in_place_then_the_other(rank, path):
    for turn in range(2):
        if turn == rank:
            with open(path, "r+") as file:
                assert file.readline()
                file.seek(0)
                file.write("after")
        dist.barrier()


def one_appends_then_the_other(rank, path):
    for turn in range(2):
        if turn == rank:
            with open(path, "a+") as file:
                file.write("after")
        dist.barrier()


def one_reads_what_is_mapped_to_be_read(rank, path):
    with open(path, "rb") as file:
        assert mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[:6] == b"before"


CLEAN = [
    both_read,
    each_writes_its_own,
    one_writes_then_the_other_reads,
    one_writes_then_the_other,
    one_saves_and_broadcasts,
    one_writes_and_sends,
    one_renames_one_reads,
    each_renames_in_turn,
    both_have_a_folder,
    both_write_under_a_lock,
    one_clears_then_both_write,
    one_removes_when_both_have_read,
    each_writes_its_part_in_place,
    each_writes_its_part_by_descriptor,
    each_writes_its_part_of_a_mapping,
    one_writes_in_place_then_the_other,
    one_appends_then_the_other,
    one_reads_what_is_mapped_to_be_read,
]
