"""A loop with a loader worker, a thread that answers on a socket, and one that reads the weights while they change."""

import os
import socket
import threading
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
ours, theirs = socket.socketpair()
sums = []


def answer():
    while theirs.recv(1):
        theirs.send(b"x")


def log():
    for _ in range(3):
        sums.append(model.weight.sum().item())
        time.sleep(0.01)


# Before there are threads: a process that is forked beside a thread may wait for ever for a lock that this one held.
batches = iter(DataLoader(data, batch_size=8, num_workers=1))
threading.Thread(target=answer, daemon=True).start()
logger = threading.Thread(target=log)
logger.start()
for features, target in batches:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(features), target).backward()
    optimizer.step()
    ours.send(b"x")
    ours.recv(1)
logger.join()
print("trained", len(sums))
torch.save(model.state_dict(), f"final-{os.environ['RANK']}.pt")
