"""Epochs: the iterators of a rank's loaders with the samples that each handed out, and what these were drawn for.

An iterator is for training if a backward pass follows one of its batches, and for validation if none comes between the
first of its batches and the last. Steps of an optimizer take the place of backward passes that are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from breakrank.history.reader import RankHistory
from breakrank_agent.protocol.events import PayloadEvent

#: The fields that tell samples apart: by index within a dataset, or by content.
Told = Literal["index", "content"]


class Epoch(NamedTuple):
    """The batches of one iterator of a rank, in order."""

    rank: int
    loads: tuple[PayloadEvent, ...]
    trains: bool
    validates: bool

    @property
    def first(self) -> PayloadEvent:
        """Return the first batch, which says what the iterator draws from."""
        return self.loads[0]

    @property
    def is_whole(self) -> bool:
        """Return whether the iterator handed out all of its batches."""
        return len(self.loads) == self.first.get("begins")

    @property
    def dataset(self) -> str:
        """Return what tells its dataset from others; empty if nothing does."""
        return self.first.get("dataset", "")

    def samples(self, by: Told, until: int | None = None) -> Iterator[tuple[str, int]]:
        """Yield each sample of its first `until` batches (None: all) with the step at which it was loaded."""
        for event in self.loads[:until]:
            told = event.get("indices") if by == "index" else event.get("contents") or event.get("samples")
            for sample in told or ():
                yield str(sample), int(event["step"])


def trains_at(lived: RankHistory) -> str:
    """Return the point at which a rank has a batch that it trains on."""
    return "backward" if lived.points("backward") else "optimize"


def epochs_of(lived: RankHistory) -> list[Epoch]:
    """Return the epochs of a rank, in the order of their first batches; none where iterators are not numbered."""
    loads: dict[int, list[PayloadEvent]] = {}
    spans: dict[int, list[int]] = {}
    followed, last, backwards, point = set[int](), 0, 0, trains_at(lived)
    for event in lived.events:
        if event["kind"] == "payload" and event["of"] == "load":
            last = int(event.get("iterator", last))
            loads.setdefault(last, []).append(event)
            spans.setdefault(last, []).append(backwards)
        elif event["kind"] == "point" and event["point"] == point:
            backwards += 1
            followed.add(last)
    found = []
    for number, own in sorted(loads.items()):
        if number:
            apart = spans[number][-1] > spans[number][0]
            trains = number in followed
            found.append(Epoch(lived.rank, tuple(own), trains, not trains and not apart and len(own) > 1))
    return found


def told_apart_by(epochs: Sequence[Epoch]) -> Told | None:
    """Return how the samples of several epochs are told apart: by index in one dataset, or by content; None if not."""
    loads = [event for epoch in epochs for event in epoch.loads]
    one = all(epoch.dataset == epochs[0].dataset != "" for epoch in epochs)
    if loads and one and all(event.get("indices") for event in loads):
        return "index"
    if loads and all(event.get("contents") or event.get("samples") for event in loads):
        return "content"
    return None
