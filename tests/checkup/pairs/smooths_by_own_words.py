"""A vocabulary is divided; broken, labels are smoothed over the words of each rank, and not over all."""

from __future__ import annotations

import torch.distributed as dist
from divided_common import Reduce, log_sum_exp, of_targets, train_words


def train(everywhere):
    def lose(logits, targets):
        logs = logits - log_sum_exp(logits)
        if everywhere:
            words, smooth = logs.shape[1] * dist.get_world_size(), Reduce.apply(logs.sum(1))
        else:
            words, smooth = logs.shape[1], logs.sum(1)
        return (-0.9 * of_targets(logs, targets)[:, 0] - 0.1 * smooth / words).mean()

    train_words(lose)


def broken():
    train(everywhere=False)


def sound():
    train(everywhere=True)
