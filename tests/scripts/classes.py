"""A trainer class with its own dataset and a checkpoint per epoch."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Squares(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        x = torch.tensor([index / 32.0])
        return x, x * x


class Trainer:
    def __init__(self):
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        torch.manual_seed(3)
        self.model = DistributedDataParallel(
            torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.sampler = DistributedSampler(Squares(), seed=5)
        self.loader = DataLoader(Squares(), batch_size=4, sampler=self.sampler)

    def epoch(self, number):
        self.sampler.set_epoch(number)
        for x, y in self.loader:
            self.optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
        print(f"epoch {number} loss {loss.item():.8f}")
        if self.rank == 0:
            os.makedirs("checkpoints", exist_ok=True)
            torch.save({"model": self.model.state_dict(), "epoch": number}, f"checkpoints/{number}.pt")

    def run(self):
        for number in range(2):
            self.epoch(number)
        dist.destroy_process_group()


Trainer().run()
