"""Settings of optimizers, such as the learning rate: where those of ranks that hold replicas part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from breakrank.analysis.digests import by_value
from breakrank.history.reader import RankHistory
from breakrank.verdict import listed, name_ranks

#: The names of settings that people call otherwise.
_SPOKEN = {"lr": "learning rate"}

#: An optimizer, a group of its parameters, and the name of a setting.
Key = tuple[int, int, str]


class Parting(NamedTuple):
    """The first step at which a setting is not the same on all ranks, and its value on each."""

    step: int
    key: Key
    values: dict[int, str]

    def words(self) -> str:
        """Say it: `the learning rate is 0.5 on rank 0 and 0.25 on rank 1 from step 25`."""
        optimizer, group, name = self.key
        of = [f"of group {group + 1}"] if group else []
        of += [f"of optimizer {optimizer}"] if optimizer > 1 else []
        what = " ".join([_SPOKEN.get(name, name.replace("_", " ")), *of])
        ranks = by_value(dict(sorted(self.values.items())))
        short = {value: _short(value) for value in ranks}
        shown = short if len(set(short.values())) == len(short) else {value: value for value in short}
        said = listed([f"{shown[value]} on {name_ranks(own)}" for value, own in ranks.items()])
        return f"the {what} is {said} from step {self.step}"


def _short(value: str) -> str:
    """Return a number without the digits that nobody wrote; what is no number as it is."""
    try:
        return f"{float(value):.6g}"
    except ValueError:
        return value


def first_parting(ranks: Sequence[RankHistory], until: int) -> Parting | None:
    """Return the first setting that is not the same on all of these ranks, up to a step; None if all are."""
    steps = sorted({event["step"] for lived in ranks for event in lived.of_kind("settings") if event["step"] <= until})
    histories = [Settings(lived) for lived in ranks]
    for step in steps:
        now = {own.rank: own.at(step) for own in histories}
        keys = set.intersection(*(set(held) for held in now.values()))
        for key in sorted(keys):
            values = {rank: held[key] for rank, held in now.items()}
            if len(set(values.values())) > 1:
                return Parting(step, key, values)
    return None


class Settings:
    """The settings of a rank's optimizers, step by step."""

    def __init__(self, lived: RankHistory) -> None:
        self.rank = lived.rank
        self._events = lived.of_kind("settings")
        self._held: dict[Key, str] = {}
        self._next = 0

    def at(self, step: int) -> dict[Key, str]:
        """Return what holds at a step, which is none before the last that was asked for."""
        while self._next < len(self._events) and self._events[self._next]["step"] <= step:
            self._held.update(self._changes(self._next))
            self._next += 1
        return self._held

    def _changes(self, number: int) -> Iterator[tuple[Key, str]]:
        event = self._events[number]
        for name, value in event["values"].items():
            yield (event["optimizer"], event["param_group"], name), value
