"""No functions, no wrappers: a loop that averages the gradients by hand."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(7)
weight = torch.randn(8, 3, requires_grad=True)
generator = torch.Generator().manual_seed(dist.get_rank())
for step in range(5):
    x = torch.randn(16, 8, generator=generator)
    loss = (x @ weight).pow(2).mean()
    loss.backward()
    dist.all_reduce(weight.grad)
    with torch.no_grad():
        weight -= 0.05 * weight.grad / dist.get_world_size()
    weight.grad = None
    print(f"step {step}: {loss.item():.6f}")
if dist.get_rank() == 0:
    torch.save(weight, "final.pt")
dist.destroy_process_group()
