"""Datasets that are told apart by what they hold, and by what their functions use."""

from __future__ import annotations

import functools
import os
import random
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from breakrank_agent.hooks.torch.datasets import describe

OFFSET = 0
values = [1]


class Held(Dataset):
    """Holds what it is given; a sample is made by functions of its own."""

    def __init__(self, *held):
        self.values = held

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.values[0], index + OFFSET


class OfARank(Held):
    """Makes another sample of an index on each rank."""

    def __getitem__(self, index):
        return int(os.environ["RANK"]) + index


def known(dataset) -> str:
    return describe(dataset, DataLoader(dataset).batch_sampler).get("dataset", "")


def reader(path):
    return lambda index: (path, index)


MAKERS = {
    "number": lambda n: Held(n),
    "path": lambda n: Held(Path(f"shard-{n}.bin")),
    "list": lambda n: Held([0] * 20 + [n]),
    "dict": lambda n: Held({"path": {n}}),
    "closure": lambda n: Held(reader(f"shard-{n}")),
    "partial": lambda n: Held(functools.partial(print, n)),
    "method": lambda n: Held(Held(n).__getitem__),
    "tensor": lambda n: TensorDataset(torch.full((8, 2), float(n))),
    "array": lambda n: Held(torch.arange(1000)[n:].numpy()),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_datasets_are_alike_by_what_they_hold(make) -> None:
    assert known(make(1)) == known(make(1)) != ""
    assert known(make(1)) != known(make(2))


def test_the_globals_that_a_function_uses_count_and_others_of_an_attributes_name_do_not(monkeypatch) -> None:
    before = known(Held(1))
    monkeypatch.setitem(globals(), "values", [2])
    assert known(Held(1)) == before
    monkeypatch.setitem(globals(), "OFFSET", 4)
    assert known(Held(1)) != before


def test_a_generator_counts_for_nothing() -> None:
    first, second = Held(random.Random(1)), Held(random.Random(2))
    assert known(first) == known(second) != ""


@pytest.mark.parametrize("dataset", [OfARank(1), Held(object()), Held(OfARank(2))])
def test_nothing_is_known_of_what_asks_for_its_rank_or_says_nothing(dataset) -> None:
    assert known(dataset) == ""


def test_a_long_dataset_is_looked_at_in_part() -> None:
    assert known(Held([[[[n] * 30] * 30] * 30 for n in range(40)])) != ""


def drawn(dataset, sampler=None, **settings) -> dict[str, object]:
    facts = describe(dataset, DataLoader(dataset, sampler=sampler, **settings).batch_sampler)
    return {name: facts[name] for name in ("draws", "padded") if name in facts}


def test_how_samples_are_drawn_is_known_by_the_sampler() -> None:
    data = TensorDataset(torch.zeros(10))
    assert drawn(data, batch_size=2) == drawn(data, batch_size=2, shuffle=True) == {}
    assert drawn(data, WeightedRandomSampler([1.0] * 10, 10)) == {"draws": "replacement"}
    assert drawn(data, SubsetRandomSampler([1, 2])) == drawn(Subset(data, [1, 2])) == {"draws": "part"}
    shared = DistributedSampler(data, num_replicas=4, rank=0)
    assert drawn(data, shared, batch_size=2) == {}
    assert drawn(data, shared, batch_size=4) == {"padded": True}
    assert describe(Subset(data, [1]), DataLoader(data).batch_sampler)["total"] == 10


@pytest.mark.parametrize(("changed_after", "told_at"), [(0, 1), (1, 2), (3, 4), (4, 8), (9, 16)])
def test_a_dataset_that_stays_the_same_is_looked_at_ever_more_rarely(changed_after, told_at) -> None:
    """A change is told at the first epoch that is looked at; from then on each epoch is looked at again."""
    dataset, before = Held(1), known(Held(1))
    said = []
    for epoch in range(1, 20):
        if epoch == changed_after + 1:
            dataset.values = (2,)
        said.append(known(dataset))
    assert said == [before] * (told_at - 1) + [known(Held(2))] * (20 - told_at)


def test_a_dataset_that_changes_with_each_epoch_is_looked_at_at_each() -> None:
    dataset = Held(0)
    said = []
    for epoch in range(12):
        dataset.values = (epoch,)
        said.append(known(dataset))
    assert said == [known(Held(epoch)) for epoch in range(12)]


def test_another_dataset_in_the_memory_of_one_that_is_gone_is_looked_at() -> None:
    said = {known(Held(number)) for number in range(50)}
    assert len(said) == 50
