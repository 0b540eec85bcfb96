"""Trains with torch, and imports TensorFlow for something else, after it."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(int(os.environ["RANK"]))
weights = torch.zeros(8, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
import tensorflow as tf  # noqa: E402

for _ in range(3):
    optimizer.zero_grad()
    ((torch.rand(4, 8) @ weights - 1) ** 2).mean().backward()
    dist.all_reduce(weights.grad)
    optimizer.step()
print(tf.reduce_sum(tf.constant(weights.detach().numpy())).numpy() == weights.detach().numpy().sum())
