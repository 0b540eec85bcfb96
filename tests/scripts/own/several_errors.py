"""Errors of other processes that reach the main one: by a loader's worker, a pool, a future, or a spawned process."""

import concurrent.futures
import multiprocessing
import sys

import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset


class Broken(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise IndexError("sample 9 is out of range")


def fail(_):
    raise IndexError("sample 9 is out of range")


def load(_):
    list(DataLoader(Broken(), num_workers=1))


WAYS = {
    "loader": lambda: load(0),
    "pool": lambda: multiprocessing.get_context("fork").Pool(1).map(fail, [1]),
    "future": lambda: concurrent.futures.ProcessPoolExecutor(1).submit(fail, 1).result(),
    "spawn": lambda: mp.spawn(fail, nprocs=1),
    "loader in spawn": lambda: mp.spawn(load, nprocs=1),
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
