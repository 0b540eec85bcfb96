"""A wrapper reduces gradients by a function of the program's own, and waits for what that returns."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def reduce(state, bucket):
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0].div_(dist.get_world_size()))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    model.register_comm_hook(None, reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 8, generator=samples)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
