"""A vocabulary is divided; broken, the penalty on large logits has those of a rank's own words."""

from __future__ import annotations

from divided_common import log_sum_exp, of_targets, train_words


def train(everywhere):
    def lose(logits, targets):
        whole = log_sum_exp(logits)
        size = whole if everywhere else logits.logsumexp(1, keepdim=True)
        return (whole - of_targets(logits, targets) + 0.01 * size.square()).mean()

    train_words(lose)


def broken():
    train(everywhere=False)


def sound():
    train(everywhere=True)
