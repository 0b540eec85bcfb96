"""bfloat16 by autocast, with gradient clipping and a learning rate schedule."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(4)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 2)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
generator = torch.Generator().manual_seed(dist.get_rank())
for step in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(8, 8, generator=generator)).float().pow(2).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(step, loss.item(), norm.item(), schedule.get_last_lr()[0])
torch.save(model.module.state_dict(), f"final-{dist.get_rank()}.pt")
dist.destroy_process_group()
