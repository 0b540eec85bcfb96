"""Image classification: samplers, a schedule, evaluation over all ranks, a checkpoint per epoch, and resuming."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CHECKPOINT = "checkpoint.pt"


def bars(size, seed):
    """Return images of 8 by 8 with a bar in one of four places, and the number of the place."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (size,), generator=generator)
    images = 0.3 * torch.rand(size, 1, 8, 8, generator=generator)
    for image, label in zip(images, labels, strict=True):
        image[0, :, 2 * label : 2 * label + 2] += 0.7
    return TensorDataset(images, labels)


def network():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 4))


def evaluate(model, loader):
    """Return the share of images that are recognized, over the shards of all ranks."""
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for images, labels in loader:
            counts += torch.tensor([(model(images).argmax(1) == labels).sum(), len(labels)])
    model.train()
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def save(path, **state):
    """Write a checkpoint so that there is always a whole one."""
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=8)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    data, held_out = bars(64, seed=5), bars(32, seed=6)
    sampler = DistributedSampler(data, seed=9)
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler)
    test_loader = DataLoader(held_out, batch_size=16, sampler=DistributedSampler(held_out, shuffle=False))
    model = DistributedDataParallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    begin = 0
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        begin = state["epoch"] + 1
    for epoch in range(begin, options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        scheduler.step()
        accuracy = evaluate(model, test_loader)
        if rank == 0:
            print(f"epoch {epoch} accuracy {accuracy:.4f}", flush=True)
            save(
                CHECKPOINT,
                model=model.module.state_dict(),
                optimizer=optimizer.state_dict(),
                scheduler=scheduler.state_dict(),
                epoch=epoch,
            )
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
