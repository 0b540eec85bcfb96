"""Starts a script of torchrun's style as two processes of torch.multiprocessing: python -u spawn.py train.py ..."""

import os
import runpy
import sys

import torch.multiprocessing as mp

WORLD = 2


def run(rank, port, words):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    mp.spawn(run, args=(20000 + os.getpid() % 10000, sys.argv[1:]), nprocs=WORLD)
