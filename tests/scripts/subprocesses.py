"""Starts other Python processes, and leaves with an exit code of its own."""

import multiprocessing
import subprocess
import sys

import torch
import torch.distributed as dist


def square(number):
    return number * number


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(12)
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 3) * (dist.get_rank() + 1)).pow(2).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    said = subprocess.run([sys.executable, "-c", "import sys; print(sys.argv)"], capture_output=True, text=True)
    print(said.stdout.strip(), said.stderr.strip())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, [1, 2, 3]))
    torch.save(model.state_dict(), f"final-{dist.get_rank()}.pt")
    dist.destroy_process_group()
    sys.exit(5)
