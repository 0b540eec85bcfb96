"""Models that are divided by hand in ways that are sound, although losses, norms or sums of ranks look otherwise."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from divided_common import Copy, Reduce
from torch import nn
from torch.nn import functional

STEPS = int(os.environ.get("BREAKRANK_STEPS", "4"))


class Own(torch.autograd.Function):
    """Take this rank's samples of all; the gradient has those of all ranks again."""

    @staticmethod
    def forward(ctx, x):
        ctx.size = len(x) // dist.get_world_size()
        return x[dist.get_rank() * ctx.size :][: ctx.size].clone()

    @staticmethod
    def backward(ctx, gradient):
        whole = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
        dist.all_gather(whole, gradient.contiguous())
        return torch.cat(whole)


class Model(nn.Module):
    """Two matrices of which each rank has a part, and a head that all ranks have."""

    def __init__(self, dropout=0.0):
        super().__init__()
        dist.init_process_group("gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(0)
        self.norm, self.head, self.dropout = nn.LayerNorm(8), nn.Linear(8, 4), dropout
        torch.manual_seed(1 + rank)
        self.up, self.down = nn.Linear(8, 32 // world, bias=False), nn.Linear(32 // world, 8, bias=False)

    def hidden(self, x):
        inner = functional.dropout(functional.gelu(self.up(Copy.apply(self.norm(x)))), self.dropout, self.training)
        return x + Reduce.apply(self.down(inner))

    def forward(self, x):
        return self.head(self.hidden(x))


def _lose(model, x):
    return (model(x) - x[:, :4].sin()).pow(2).mean()


def _train(model, lose=_lose, reduce=None, rate=0.1):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    samples = torch.Generator().manual_seed(5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        lose(model, torch.randn(16, 8, generator=samples)).backward()
        if reduce is not None:
            reduce(model)
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


def dropout_of_its_own():
    """Drop elements of the part that a rank has, by random numbers of its own."""
    _train(Model(dropout=0.5))


def samples_of_its_own():
    """Put all ranks' parts together for all samples, and have each rank's loss be over samples of its own."""

    class Parted(Model):
        def forward(self, x):
            return self.head(Own.apply(self.hidden(x)))

    def reduce(model):
        for parameter in model.head.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        for parameter in (*model.norm.parameters(), *model.up.parameters(), *model.down.parameters()):
            parameter.grad /= dist.get_world_size()

    _train(Parted(), lambda model, x: (model(x) - Own.apply(x)[:, :4].sin()).pow(2).mean(), reduce)


def penalty_of_its_own():
    """Add the squares of the parameters that a rank has to its loss."""

    def lose(model, x):
        return _lose(model, x) + 1e-3 * sum(parameter.pow(2).sum() for parameter in model.parameters())

    _train(Model(), lose)


def _square(gradients):
    return torch.stack([gradient.pow(2).sum() for gradient in gradients]).sum()


def clips_and_logs():
    """Clip by the norm of all shards and replicas, and log the mean of the norms of all ranks."""

    def reduce(model):
        shards = _square([model.up.weight.grad, model.down.weight.grad])
        replicas = _square([parameter.grad for part in (model.norm, model.head) for parameter in part.parameters()])
        logged = shards + replicas
        dist.all_reduce(logged)
        dist.all_reduce(shards)
        for parameter in model.parameters():
            parameter.grad *= min(1.0, 0.1 / float((shards + replicas).sqrt()))

    _train(Model(), reduce=reduce)


def averages_statistics():
    """Average statistics of features, which all ranks have alike, over the ranks."""

    class Whitened(Model):
        def forward(self, x):
            hidden = self.hidden(x)
            mean = hidden.detach().mean(0)
            dist.all_reduce(mean)
            return self.head(hidden - mean / dist.get_world_size())

    _train(Whitened())
