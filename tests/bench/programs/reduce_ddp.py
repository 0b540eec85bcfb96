"""One all-reduce, and five steps under DDP: the least that a test of distributed training does.

Started by Breakrank, by `torch.distributed.run`, and by torch's own test case.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()


def train():
    """Check an all-reduce, then train.

    The model lives in here, so that it is gone before its group. The other way round torch 2.13 now and then waits for
    ever: DDP's reducer then frees the group with the GIL held, joins gloo's threads, and one of those wants the GIL.
    """
    ones = torch.ones(1)
    dist.all_reduce(ones)
    assert ones.item() == dist.get_world_size()
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
