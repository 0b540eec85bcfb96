"""Functions, arguments and a main guard."""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    return parser.parse_args()


def train(model, steps, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for step in range(steps):
        torch.manual_seed(100 * step + dist.get_rank())
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).sum()
        loss.backward()
        optimizer.step()
        # One write, which the other rank's cannot mix with, buffered or not.
        print(f"loss {step} {loss.item()}\n", end="", flush=True)


def main():
    arguments = parse()
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    train(model, arguments.steps, arguments.lr)
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "final.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
