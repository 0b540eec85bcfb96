"""Gradients of all ranks are averaged; broken, they are added up."""

from __future__ import annotations

from common import average, sum_up, train_merged


def broken():
    train_merged(sum_up)


def sound():
    train_merged(average)
