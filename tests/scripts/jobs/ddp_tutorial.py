"""Distributed data parallel as the tutorial has it: a trainer, a snapshot now and then, started by torchrun."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Plane(Dataset):
    """Points of a noisy plane."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.rand(size, 6, generator=generator)
        self.y = self.x @ torch.arange(6.0).unsqueeze(1) + 0.01 * torch.randn(size, 1, generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Trainer:
    def __init__(self, model, loader, optimizer, save_every):
        self.rank = int(os.environ["RANK"])
        self.model = DistributedDataParallel(model)
        self.loader = loader
        self.optimizer = optimizer
        self.save_every = save_every

    def run_batch(self, x, y):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run_epoch(self, epoch):
        self.loader.sampler.set_epoch(epoch)
        losses = [self.run_batch(x, y) for x, y in self.loader]
        if self.rank == 0:
            print(f"epoch {epoch} loss {sum(losses) / len(losses):.6f}", flush=True)

    def train(self, epochs):
        for epoch in range(epochs):
            self.run_epoch(epoch)
            if self.rank == 0 and epoch % self.save_every == 0:
                torch.save({"model": self.model.module.state_dict(), "epoch": epoch}, "snapshot.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--save-every", type=int, default=2)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Plane(80)
    loader = DataLoader(data, batch_size=10, sampler=DistributedSampler(data))
    model = torch.nn.Linear(6, 1)
    Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=0.05), options.save_every).train(options.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
