"""The parts that the pairs share: a small model, its batches, and the steps of a training."""

from __future__ import annotations

import io
import os
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

#: Wrappers live as long as the process: PyTorch 2.13 may hang where one goes before (see ../../e2e/test_hangs.py).
KEPT = []


def start(seed=7):
    """Join the others; return the rank and the world size."""
    dist.init_process_group("gloo")
    torch.manual_seed(seed)
    return dist.get_rank(), dist.get_world_size()


def wrapped(model):
    """Return a model whose gradients are reduced."""
    KEPT.append(DistributedDataParallel(model))
    return KEPT[-1]


class Noisy(Dataset):
    """Samples with noise."""

    def __init__(self, samples, noise):
        self.samples, self.noise = samples, noise

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return (self.samples[index] + 0.01 * torch.tensor(self.noise(), dtype=torch.float32),)


class Records(Dataset):
    """A rank's part of the samples in a file of its own, which is opened when a sample is asked for."""

    def __init__(self, data, path):
        samples = data.tensors[0][dist.get_rank() :: dist.get_world_size()]
        with open(path, "wb") as file:
            file.write(samples.contiguous().numpy().tobytes())
        self.count, self.path, self.file = len(samples), path, None

    def __len__(self):
        return self.count

    def read(self, at, size):
        if self.file is None:
            self.file = io.FileIO(self.path)
        self.file.seek(at)
        return self.file.read(size)

    def __getitem__(self, index):
        return (torch.frombuffer(bytearray(self.read(index * 32, 32)), dtype=torch.float32),)


def batches(steps, size=16, seed=None):
    """Yield batches of a rank's own."""
    samples = torch.Generator().manual_seed(dist.get_rank() if seed is None else seed)
    for _ in range(steps):
        yield torch.randn(size, 8, generator=samples)


def lose(model, x):
    """Return the loss of a batch."""
    return (model(x) - x[:, :4].sin()).pow(2).mean()


def validate(model):
    """Make passes without gradients."""
    with torch.no_grad():
        for x in batches(2):
            lose(model, x)


def learn(model, optimizer, x, reduce=None):
    """Make a step; `reduce` has the model after its backward pass."""
    optimizer.zero_grad()
    lose(model, x).backward()
    if reduce is not None:
        reduce(model)
    optimizer.step()


def average(model, chosen=lambda name: True):
    """Average the gradients of the parameters with these names over all ranks."""
    for name, parameter in model.named_parameters():
        if chosen(name):
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def network():
    """Return a small model."""
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def start_alike(kind):
    """Return a model that begins alike on all ranks."""
    torch.manual_seed(7)
    return kind()


def alike_layers():
    """Return a model of layers that are alike in shape, and that begins alike on all ranks."""
    torch.manual_seed(7)
    return nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(3)))


def average_named(model, names):
    """Average the gradients of the parameters with these names over all ranks, in this order."""
    parameters = dict(model.named_parameters())
    for name in names:
        dist.all_reduce(parameters[name].grad)
        parameters[name].grad /= dist.get_world_size()


def train_with(model, reduce, steps=4):
    """Train a model with gradients that `reduce` averages, which has the model and the rank."""
    rank, _ = start()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(steps):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        reduce(model, rank)
        optimizer.step()


def wrapped_network():
    """Return a small model whose gradients are reduced."""
    return wrapped(network())


def normed():
    """Return a small model with batch norm."""
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4))


class Staged(nn.Module):
    """Two layers, of which train() freezes the first."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def train(self, mode=True):
        super().train(mode)
        self.first.requires_grad_(False)
        return self

    def forward(self, x):
        return self.second(self.first(x).tanh())


class Experts(nn.Module):
    """A layer for all tokens, and an expert of the rank's own, to which `exchange` brings tokens."""

    def __init__(self, exchange):
        super().__init__()
        self.shared, self.exchange = nn.Linear(8, 8), exchange
        torch.manual_seed(dist.get_rank())
        self.expert = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.shared(x) + self.exchange(self.expert(self.exchange(self.shared(x).tanh())))


class Gate:
    """Saves in a thread, whose first write ends after one more step."""

    def __init__(self):
        self.count, self._saved_at = 0, None
        self._file, self._thread = io.BytesIO(), None
        self._begun, self._stepped = threading.Event(), threading.Event()

    def save(self, state):
        self._saved_at = self.count
        self._thread = threading.Thread(target=torch.save, args=(state, self))
        self._thread.start()
        self._begun.wait()

    def write(self, data):
        self._begun.set()
        self._stepped.wait()
        return self._file.write(data)

    def flush(self):
        self._file.flush()

    def step(self):
        if self._saved_at is not None and self.count > self._saved_at:
            self._stepped.set()
        self.count += 1

    def close(self):
        self._stepped.set()
        self._thread.join()


def train_by(model, samples, lose, reduce=None, after=None):
    """Train a model on batches by a loss of model and batch; `after` is called after each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in samples:
        optimizer.zero_grad()
        lose(model, x).backward()
        if reduce is not None:
            reduce(model)
        optimizer.step()
        if after is not None:
            after()


def average_given(model):
    """Average the gradients that are there over all ranks."""
    given = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    average(model, given.__contains__)


class Dropping(nn.Module):
    """A layer behind one that drops elements."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)


def train_and_try(kind):
    """Train a model, and try it in eval mode every two steps."""
    start()
    model = wrapped(kind())
    for _ in range(3):
        train_by(model, batches(2), lose)
        model.eval()
        with torch.no_grad():
            lose(model, torch.ones(4, 8))
        model.train()


def sum_up(model):
    """Add up the gradients of all ranks."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def merged_batches(steps):
    """Yield the batches of this rank; a rank that does the work of several has theirs together."""
    rank, merged = dist.get_rank(), int(os.environ.get("BREAKRANK_MERGED", "1"))
    samples = [torch.Generator().manual_seed(one) for one in range(rank, rank + merged)]
    for _ in range(steps):
        yield torch.cat([torch.randn(16, 8, generator=own) for own in samples])


def train_merged(reduce, scaled=lambda loss: loss):
    """Train on the batches of this rank, with gradients that `reduce` averages."""
    start()
    train_by(network(), merged_batches(4), lambda model, x: scaled(lose(model, x)), reduce)


def train_on(loader_of):
    """Train an epoch on a loader, which is made of the samples, the rank and the world size."""
    rank, world = start()
    data = TensorDataset(torch.randn(64, 8))
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader_of(data, rank, world):
        learn(model, optimizer, x)


def train_and_validate(split):
    """Train two epochs, and validate after each; `split` is asked for both datasets, by data, rank and world size."""
    rank, world = start()
    training, validation = split(TensorDataset(torch.randn(64, 8)), rank, world)
    loader = DataLoader(training, batch_size=4, sampler=DistributedSampler(training, world, rank, shuffle=False))
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for (x,) in loader:
            learn(model, optimizer, x)
        with torch.no_grad():
            for (x,) in DataLoader(validation, batch_size=8):
                lose(model, x)


def train_shuffled(tell):
    """Train four epochs on shuffled samples; `tell` has the sampler and the epoch before each."""
    start()
    data = TensorDataset(torch.randn(32, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        tell(sampler, epoch)
        for (x,) in loader:
            learn(model, optimizer, x)


def train_averaged(model_of):
    """Train a model, made of the rank, with gradients that are averaged by hand."""
    rank, _ = start()
    model = model_of(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(4):
        learn(model, optimizer, x, average)
