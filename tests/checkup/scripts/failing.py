"""Fails before its first step, in a function of its own."""

import torch
import torch.distributed as dist


def load():
    return torch.load("weights.pt")


dist.init_process_group("gloo")
load()
