"""A job that is started by hand, without Breakrank: it trains until the file `word` in its folder says otherwise."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

WORDS = ["train", "spin", "load", "part", "end"]


def say(line):
    """Print a line in one piece: `print` without a buffer would mix it with lines of the other rank."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def told():
    """Return the word that the test has written."""
    return Path("word").read_text()


def spin():
    """Compute something without end, until told to train again."""
    while told() == "spin":
        sum(range(1000))


class Stuck(Dataset):
    """Samples that never come."""

    def __len__(self):
        """Return how many there would be."""
        return 4

    def __getitem__(self, index):
        """Print that the loader has begun, then wait for good."""
        say(f"rank {os.environ['RANK']} loads")
        threading.Event().wait()


def synchronize(rank, word):
    """Sum a tensor over the ranks; told to part, rank 1 goes another way."""
    if word == "part" and rank == 1:
        say(f"rank {rank} parts")
        dist.barrier()
    ones = torch.ones(4)
    dist.all_reduce(ones)
    if ones.tolist() != [dist.get_world_size()] * 4:
        sys.exit(f"rank {rank} has a wrong sum")


def main():
    """Take a word from rank 0 at each step."""
    say(f"rank {os.environ['RANK']} starts")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    number = torch.zeros(1, dtype=torch.int64)
    word, step = "train", 0
    while word != "end":
        number.fill_(WORDS.index(told()) if rank == 0 else -1)
        dist.broadcast(number, src=0)
        word, step = WORDS[number.item()], step + 1
        if word == "spin" and rank == 1:
            say(f"rank {rank} spins")
            spin()
        if word == "load" and rank == 0:
            for sample in DataLoader(Stuck(), num_workers=1):
                print(sample)
        synchronize(rank, word)
        if step == 3:
            say(f"rank {rank} trains")
    dist.destroy_process_group()
    say(f"rank {rank} ends, every sum was right")


if __name__ == "__main__":
    main()
