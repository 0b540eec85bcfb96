"""An iterable dataset that is read by loader workers."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        worker = get_worker_info()
        generator = torch.Generator().manual_seed(1000 * self.rank + worker.id)
        for _ in range(8):
            yield torch.randn(4, generator=generator)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(8)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Stream(dist.get_rank()), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        (model(batch) - batch).pow(2).mean().backward()
        optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "final.pt")
    print("ranks", dist.get_world_size())
    dist.destroy_process_group()
