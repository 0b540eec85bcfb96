"""A layer of which each rank has a part, and all ranks' samples: sums are scattered while a gradient is computed."""

import torch
import torch.distributed as dist


class Gather(torch.autograd.Function):
    """Gather the samples of all ranks for a part of a matrix; gradients are summed and scattered meanwhile."""

    @staticmethod
    def forward(ctx, x, weight):
        whole = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_into_tensor(whole, x.contiguous())
        ctx.save_for_backward(whole, weight)
        return whole @ weight.t()

    @staticmethod
    def backward(ctx, gradient):
        whole, weight = ctx.saved_tensors
        own = whole.new_empty(len(whole) // dist.get_world_size(), *whole.shape[1:])
        work = dist.reduce_scatter_tensor(own, gradient @ weight, async_op=True)
        of_weight = gradient.t() @ whole
        work.wait()
        return own, of_weight


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    first = torch.nn.Linear(8, 8)
    torch.manual_seed(1 + rank)
    part = torch.nn.Parameter(torch.randn(4, 8))
    optimizer = torch.optim.SGD([*first.parameters(), part], lr=0.1)
    samples = torch.Generator().manual_seed(rank)
    for _ in range(4):
        optimizer.zero_grad()
        Gather.apply(first(torch.randn(8, 8, generator=samples)), part).square().mean().backward()
        for parameter in first.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
