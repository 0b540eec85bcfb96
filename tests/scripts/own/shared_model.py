"""Training in processes that are no ranks: each updates the same shared model, and nobody makes a process group."""

import sys

import torch
import torch.multiprocessing as mp


def train(model, seed):
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    shared = torch.nn.Linear(4, 1)
    shared.share_memory()
    processes = [context.Process(target=train, args=(shared, seed)) for seed in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with torch.no_grad():
        shared(torch.randn(8, 4))
    print("done")
