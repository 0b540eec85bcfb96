"""Trainings that freeze parameters as they mean to: no law about frozen parameters objects to them."""

from __future__ import annotations

import copy

import torch
from common import average, batches, learn, lose, network, start, validate, wrapped
from torch import nn


def in_turn():
    """Train two wrapped models in turn, the one frozen while the other is trained through it."""
    start()
    maker, critic = wrapped(nn.Linear(8, 8)), wrapped(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)))
    watched = nn.Linear(8, 4)
    of_maker, of_critic = (torch.optim.Adam(model.parameters(), lr=0.01) for model in (maker, critic))
    for x in batches(5):
        critic.requires_grad_(False)
        of_maker.zero_grad()
        made = maker(x)
        (critic(made).mean() + watched(made).pow(2).mean()).backward()
        of_maker.step()
        critic.requires_grad_(True)
        of_critic.zero_grad()
        (critic(x).mean() - critic(maker(x).detach()).mean()).backward()
        of_critic.step()
        of_critic.zero_grad()


def one_by_one():
    """Begin with the head, and free the layer below after some steps, which an optimizer of its own has."""
    start()
    model = network()
    model[0].requires_grad_(False)
    optimizers = [torch.optim.Adam(model[2].parameters(), lr=0.01), torch.optim.Adam(model[0].parameters(), lr=0.01)]
    for number, x in enumerate(batches(6)):
        if number == 3:
            model[0].requires_grad_(True)
        for optimizer in optimizers:
            optimizer.zero_grad()
        lose(model, x).backward()
        average(model, lambda name: model.get_parameter(name).requires_grad)
        for optimizer in optimizers:
            optimizer.step()


class Scheduled(nn.Module):
    """A model whose first layer is frozen from its third call of train() on."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.calls = nn.Linear(8, 16), nn.Linear(16, 4), 0

    def train(self, mode=True):
        super().train(mode)
        self.calls += mode
        self.first.requires_grad_(self.calls < 3)
        return self

    def forward(self, x):
        return self.second(self.first(x).tanh())


def _train_in_epochs(model, learn_on):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model.train(mode=True)
        for x in batches(2):
            learn_on(optimizer, x)
        model.train(mode=False)
        validate(model)


def by_schedule():
    """Freeze the first layer after two epochs."""
    start()
    model = Scheduled()

    def learn_on(optimizer, x):
        learn(model, optimizer, x, lambda trained: average(trained, _asking(trained)))

    _train_in_epochs(model, learn_on)


def _asking(model):
    return lambda name: model.get_parameter(name).requires_grad


class Switched(nn.Module):
    """A model that asks for gradients in train mode alone."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def train(self, mode=True):
        return super().train(mode).requires_grad_(mode)

    def forward(self, x):
        return self.layer(x)


def in_eval_mode():
    """Begin in the mode of a new module, and ask for no gradients in each validation."""
    start()
    model = Switched()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for x in batches(2):
            learn(model, optimizer, x, average)
        model.eval()
        validate(model)
        model.train()


class Looping(nn.Module):
    """A model whose loop is called train, and freezes a layer in its midst."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.first(x).tanh())

    def train(self, samples, rate=0.1):
        optimizer = torch.optim.SGD(self.parameters(), lr=rate)
        for number, x in enumerate(samples):
            self.first.requires_grad_(number < 2)
            learn(self, optimizer, x, lambda trained: average(trained, _asking(trained)))


def by_a_loop_of_its_own():
    """Call the loop twice."""
    start()
    model = Looping()
    for samples in (batches(4), batches(4)):
        model.train(samples, rate=0.1)


def taught_by_a_copy():
    """Train beside a frozen teacher whose spectral norm was fitted, and validate before the first step."""
    start()
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(8, 16)), nn.Tanh(), nn.Linear(16, 4))
    validate(model.eval())
    legacy = nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 4)))
    validate(legacy)
    teacher = copy.deepcopy(legacy).eval().requires_grad_(False)
    optimizer = torch.optim.SGD(model.train().parameters(), lr=0.1)
    for x in batches(4):
        optimizer.zero_grad()
        (model(x) - teacher(x)).pow(2).mean().backward()
        average(model)
        optimizer.step()
