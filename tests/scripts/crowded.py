"""A loop beside a pool that nobody shuts down, a thread of the C library's, a loader worker, threads of operators."""

import concurrent.futures
import ctypes
import os
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(2)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
library = ctypes.CDLL(None)
library.pthread_create.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
library.pthread_join.argtypes = (ctypes.c_ulong, ctypes.c_void_p)
entered, leave, met = threading.Event(), threading.Event(), threading.Barrier(2)
summed, large = torch.zeros(4), torch.zeros(200_000)


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def stay(_):
    entered.set()
    leave.wait()


def add():
    met.wait()
    summed.add_(1)


# Before there are threads: a process that is forked beside a thread may wait for ever for a lock that this one held.
batches = iter(DataLoader(data, batch_size=8, num_workers=1))
native = ctypes.c_ulong()
library.pthread_create(ctypes.addressof(native), None, ctypes.cast(stay, ctypes.c_void_p), None)
entered.wait()
pool = concurrent.futures.ThreadPoolExecutor(2)
for features, target in batches:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(features), target).backward()
    for future in [pool.submit(add), pool.submit(add), pool.submit(large.add_, 1)]:
        future.result()
    large.add_(1)
    optimizer.step()
leave.set()
library.pthread_join(native, None)
print("trained", int(large[0]))
torch.save(model.state_dict(), f"final-{os.environ['RANK']}.pt")
