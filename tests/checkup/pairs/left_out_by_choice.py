"""Trainings that leave parameters out of the optimizer as they mean to, without freezing them: no law objects."""

from __future__ import annotations

import copy

import torch
from common import average, average_given, batches, learn, lose, network, start, wrapped
from torch import nn


def _deep():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))


def _train(model, owned, steps=6, after=None):
    optimizer = torch.optim.SGD(owned, lr=0.1)
    for x in batches(steps):
        learn(model, optimizer, x)
        model.zero_grad() if after is None else after(model)


def below_the_rest():
    """Leave the first layer, whose numbers were drawn at random, as it is."""
    start()
    model = wrapped(_deep())
    _train(model, [p for name, p in model.named_parameters() if not name.startswith("module.0.")])


def head_alone():
    """Train the head on what the body makes of samples."""
    start()
    model = wrapped(_deep())
    _train(model, model.module[4].parameters())


def prompt():
    """Train what is added to the samples, before layers that stay as they are."""

    class Prompted(nn.Module):
        def __init__(self):
            super().__init__()
            self.prompt, self.body = nn.Parameter(torch.zeros(8)), _deep()

        def forward(self, x):
            return self.body(x + self.prompt)

    start()
    model = wrapped(Prompted())
    _train(model, [model.module.prompt])


def head_of_an_earlier_training():
    """Train the body for a head whose state comes from elsewhere."""
    start()
    model = _deep()
    model[4].load_state_dict(copy.deepcopy(nn.Linear(16, 4).state_dict()))
    model = wrapped(model)
    _train(model, [p for name, p in model.named_parameters() if not name.startswith("module.4.")])


def teacher_with_gradients():
    """Train beside a teacher that nobody froze."""
    start()
    model, teacher = wrapped(network()), nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(6):
        optimizer.zero_grad()
        (model(x) - teacher(x)).pow(2).mean().backward()
        optimizer.step()


def average_beside():
    """Keep an average of the weights, which asks for gradients that it never has."""
    start()
    model = wrapped(network())
    kept = copy.deepcopy(model.module)

    def keep(trained):
        with torch.no_grad():
            for old, new in zip(kept.parameters(), trained.parameters(), strict=True):
                old.lerp_(new, 0.1)

    _train(model, model.parameters(), after=keep)


def never_called():
    """Have a head for another task, which this one does not call."""

    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head, self.other = nn.Linear(8, 16), nn.Linear(16, 4), nn.Linear(16, 2)

        def forward(self, x):
            return self.head(self.body(x).tanh())

    start()
    model = TwoHeads()
    optimizer = torch.optim.SGD([*model.body.parameters(), *model.head.parameters()], lr=0.1)
    for x in batches(6):
        learn(model, optimizer, x, average_given)


def rarely_stepped():
    """Have an optimizer for the head that steps more rarely than the run lasts."""
    start()
    model = wrapped(network())
    rare = torch.optim.SGD(model.module[2].parameters(), lr=0.1)
    optimizer = torch.optim.SGD(model.module[0].parameters(), lr=0.1)
    for number, x in enumerate(batches(8), 1):
        learn(model, optimizer, x)
        if number % 10 == 0:
            rare.step()
            rare.zero_grad()


def moved_by_hand(every=1):
    """Move the head by hand, every so many steps."""
    start()
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.module[0].parameters(), lr=0.1)
    for number, x in enumerate(batches(8), 1):
        learn(model, optimizer, x)
        if number % every == 0:
            for parameter in model.module[2].parameters():
                parameter.data -= 0.1 * parameter.grad
                parameter.grad = None


def moved_by_hand_at_last():
    """Move the head by hand every six steps."""
    moved_by_hand(every=6)


def part_in_a_wrapper():
    """Wrap the body, and average the gradients of the head by hand."""
    start()
    body, head = wrapped(nn.Sequential(nn.Linear(8, 16), nn.Tanh())), nn.Linear(16, 4)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    for x in batches(6):
        optimizer.zero_grad()
        lose(lambda x: head(body(x)), x).backward()
        average(head)
        optimizer.step()
