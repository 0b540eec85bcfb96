"""A trainer and a parameter server by `torch.distributed.rpc`: the model lies with the server."""

import sys

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.optim import DistributedOptimizer

model = torch.nn.Linear(4, 1)


def predict(inputs):
    return model(inputs)


def parameters():
    return [rpc.RRef(parameter) for parameter in model.parameters()]


def train(fails):
    optimizer = DistributedOptimizer(torch.optim.SGD, rpc.rpc_sync("server", parameters), lr=0.05)
    for step in range(4):
        with dist_autograd.context() as context:
            loss = rpc.rpc_sync("server", predict, (torch.ones(8, 4),)).pow(2).mean()
            dist_autograd.backward(context, [loss])
            optimizer.step(context)
        if fails and step == 2:
            raise ValueError("the batch is empty")


def work(rank, store, fails):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}")
    rpc.init_rpc(("trainer", "server")[rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        train(fails)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1], len(sys.argv) > 2), nprocs=2)
    print("done")
