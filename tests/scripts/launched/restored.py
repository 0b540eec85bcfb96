"""Training that goes on from its checkpoint after a restart, with loader workers; `--die` ends it once, half-way."""

import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def main():
    # Restarted ranks may find the addresses of those before them in torchrun's own store.
    meeting = os.path.abspath("meeting-" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    torch.manual_seed(1)
    weight = torch.randn(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    data = TensorDataset(torch.arange(32.0 * world).view(8 * world, 4)[rank::world] / 64)
    done = 0
    if os.path.exists("state.pt"):
        state = torch.load("state.pt")
        done, weight.data = state["done"], state["weight"]
    loader = DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context=sys.argv[1])
    for step, (batch,) in enumerate(loader):
        if step < done:
            continue
        optimizer.zero_grad()
        (weight * batch).sum().backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save({"done": step + 1, "weight": weight.detach()}, "state.pt")
        dist.barrier()
        if "--die" in sys.argv and not done and step == 1 and dist.get_rank() == 1:
            raise RuntimeError("a node is lost")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
