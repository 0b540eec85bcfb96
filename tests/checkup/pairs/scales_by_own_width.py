"""Scores of attention are divided by the root of a width; broken, of the width that a rank has of all heads."""

from __future__ import annotations

from attention_common import HEAD, train_attention


def broken():
    train_attention(lambda own: own)


def sound():
    train_attention(lambda own: HEAD)
