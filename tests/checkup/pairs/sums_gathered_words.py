"""Logits of a divided vocabulary are gathered; broken, a loss of divided ones adds up what each rank has whole."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from divided_common import log_sum_exp, of_targets, train_words


class Gather(torch.autograd.Function):
    """Put the words of all ranks together; each rank takes the gradient of its own."""

    @staticmethod
    def forward(ctx, logits):
        whole = [torch.empty_like(logits) for _ in range(dist.get_world_size())]
        dist.all_gather(whole, logits.contiguous())
        return torch.cat(whole, 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(dist.get_world_size(), 1)[dist.get_rank()].contiguous()


def train(as_whole):
    def lose(logits, targets):
        whole = Gather.apply(logits)
        if as_whole:
            return F.cross_entropy(whole, targets)
        return (log_sum_exp(whole) - of_targets(whole, targets)).mean()

    train_words(lose)


def broken():
    train(as_whole=False)


def sound():
    train(as_whole=True)
