"""Tokens go to the ranks of their experts; broken, by an exchange through which no gradient comes back."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from common import Experts, average, batches, start, train_by


def exchange(tokens):
    sent = torch.empty_like(tokens)
    dist.all_to_all_single(sent, tokens.contiguous())
    return sent


def exchange_back_and_forth(tokens):
    return differentiable.all_to_all_single(torch.empty_like(tokens), tokens.contiguous())


def train(exchange):
    start()

    def reduce(model):
        average(model, lambda name: "expert" not in name)

    train_by(Experts(exchange), batches(4), lambda model, x: (model(x) - x.cos()).pow(2).mean(), reduce)


def broken():
    train(exchange)


def sound():
    train(exchange_back_and_forth)
