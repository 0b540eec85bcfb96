"""Two models against each other, each with an optimizer of its own."""

import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Network(DistributedDataParallel):
    def __call__(self, *inputs):
        warnings.warn("this network is about to be renamed", FutureWarning, stacklevel=2)
        return super().__call__(*inputs)


dist.init_process_group("gloo")
torch.manual_seed(6)
maker = Network(torch.nn.Linear(2, 4), broadcast_buffers=False)
critic = Network(torch.nn.Linear(4, 1), broadcast_buffers=False)
makers = torch.optim.RMSprop(maker.parameters(), lr=0.01)
critics = torch.optim.RMSprop(critic.parameters(), lr=0.02)
generator = torch.Generator().manual_seed(9 * dist.get_rank() + 1)
for _ in range(4):
    noise, real = torch.randn(8, 2, generator=generator), torch.randn(8, 4, generator=generator)
    critics.zero_grad()
    (critic(maker(noise).detach()).mean() - critic(real).mean()).backward()
    critics.step()
    makers.zero_grad()
    (-critic(maker(noise)).mean()).backward()
    makers.step()
if dist.get_rank() == 0:
    torch.save([maker.module.state_dict(), critic.module.state_dict()], "final.pt")
print("done", dist.get_rank())
dist.destroy_process_group()
