"""A vocabulary is divided; broken, the softmax of each rank is over the words of its own."""

from __future__ import annotations

from divided_common import log_sum_exp, of_targets, train_words


def train(everywhere):
    def lose(logits, targets):
        whole = log_sum_exp(logits) if everywhere else logits.logsumexp(1, keepdim=True)
        return (whole - of_targets(logits, targets)).mean()

    train_words(lose)


def broken():
    train(everywhere=False)


def sound():
    train(everywhere=True)
