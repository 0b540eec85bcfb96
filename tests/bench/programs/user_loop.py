"""A training script as people write it: DDP, a DataLoader with a DistributedSampler, Adam; it times its own loop.

`user_loop.py layers` trains linear layers (three all-reduces of about 1 MB a step), `user_loop.py attention` a small
transformer (many small operators). A step takes about 11 ms. Rank R writes the seconds of its loop, by the clock and of
the processor, and the processor seconds before it, to loop-R.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = 600
#: The first steps do more than the others: torch imports, and DDP rebuilds its buckets.
SETTLING = 6


def layers():
    """Return a model of linear layers, its data, and the number of samples in a batch."""
    sizes = [(256, 640), (640, 640), (640, 640), (640, 10)]
    modules = [module for size in sizes for module in (torch.nn.Linear(*size), torch.nn.ReLU())]
    return torch.nn.Sequential(*modules[:-1]), torch.randn(4096, 256), 64


def attention():
    """Return a small transformer, its data, and the number of samples in a batch."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2), torch.nn.Flatten(), torch.nn.Linear(1024, 10))
    return model, torch.randn(4096, 16, 64), 24


def clocks():
    """Return the time by the clock, and the processor time of all threads of this process."""
    return time.perf_counter(), time.process_time()


def main():
    """Train, and say how long the loop took."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, inputs, size = {"layers": layers, "attention": attention}[sys.argv[1]]()
    data = TensorDataset(inputs, torch.randint(0, 10, (len(inputs),)))
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=size, sampler=sampler)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = torch.nn.CrossEntropyLoss()
    step, epoch, began = 0, 0, (0.0, 0.0)
    while step < STEPS + SETTLING:
        sampler.set_epoch(epoch)
        for batch, labels in loader:
            if step == SETTLING:
                began = clocks()
            optimizer.zero_grad()
            loss = criterion(model(batch), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step == STEPS + SETTLING:
                break
        epoch += 1
    taken = [now - then for now, then in zip(clocks(), began, strict=True)]
    Path(f"loop-{dist.get_rank()}.json").write_text(json.dumps([*taken, began[1]]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
