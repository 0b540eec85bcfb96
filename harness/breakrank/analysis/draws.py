"""Batches that are drawn as no training wants them, whatever the samples are: seen without a control."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from breakrank.analysis.epochs import Epoch, Told, epochs_of, told_apart_by, trains_at
from breakrank.analysis.held_out import SHARE, find_leak
from breakrank.analysis.kinship import find_kin
from breakrank.analysis.padding import find_padding
from breakrank.history.reader import History, RankHistory
from breakrank.verdict import Finding
from breakrank_agent.protocol.events import PayloadEvent

#: The fewest steps with one batch that are a fault: for a step or two, it may be wanted to try a program out.
_STEPS = 4
#: The fewest samples, and the least share of them, that come as often as there are workers.
_SAMPLES, _MOST = 8, 0.9
#: The fewest epochs in one order that are a fault: a second one may have been begun for a few steps more.
_EPOCHS = 3
#: Causes that a comparison with a control's samples names as well, by what it lost and doubled.
COMPARED = frozenset(("first batch again", "one batch on all", "overlapping shards", "samples never drawn"))


def drawn_wrong(history: History) -> list[Finding]:
    """Return the first finding about how ranks draw their batches."""
    return next(filter(None, (law(history) for law in _LAWS)), [])


def _first_batch_again(history: History) -> list[Finding]:
    """Return the finding that ranks draw the first batch of a new iterator at each of several steps in a row."""
    found = {lived.rank: stretch for lived in history.last if (stretch := _stretch_of_firsts(lived))}
    if not found:
        return []
    first = found[min(found)]
    step = min(int(stretch[0]["step"]) for stretch in found.values())
    return _finding(history, "first batch again", [*found], step, steps=len(first), batches=first[0]["begins"])


def _stretch_of_firsts(lived: RankHistory) -> list[PayloadEvent]:
    """Return the first stretch of loads, one a step, that are all the same first batch of an iterator with others.

    There is none if nothing tells batches apart.
    """
    stretch: list[PayloadEvent] = []
    for event in lived.payloads("load"):
        begins = event.get("begins", 0) > 1 and bool(_batch(event))
        if stretch and not (begins and event["step"] > stretch[-1]["step"] and _batch(event) == _batch(stretch[-1])):
            if len(stretch) >= _STEPS:
                break
            stretch = []
        if begins:
            stretch.append(event)
    return stretch if len(stretch) >= _STEPS else []


def _batch(event: PayloadEvent) -> str:
    """Return what tells a batch from others, empty if nothing does."""
    return str(event.get("indices") or event.get("batch") or "")


def _one_order(history: History) -> list[Finding]:
    """Return the finding that a sampler which shuffles was told of no new epoch, and draws in one order."""
    found: dict[int, int] = {}
    for lived in history.last:
        epochs = [e for e in trained_loads(lived) if "epoch" in e and e.get("begins", 0) > 1 and _batch(e)]
        for window in zip(*(epochs[i:] for i in range(_EPOCHS)), strict=False):
            if len({(event["epoch"], _batch(event)) for event in window}) == 1:
                found.setdefault(lived.rank, int(window[1]["step"]))
    return _finding(history, "one order", [*found], min(found.values())) if found else []


def _shuffled_once(history: History) -> list[Finding]:
    """Return the finding that iterators that shuffle hand out the same batches epoch after epoch."""
    found: dict[int, int] = {}
    for lived in history.last:
        epochs = [epoch for epoch in epochs_of(lived) if epoch.trains and "shuffles" in epoch.first]
        for window in zip(*(epochs[i:] for i in range(_EPOCHS)), strict=False):
            fewest = min(len(epoch.loads) for epoch in window)
            orders = {tuple(map(_batch, epoch.loads[:fewest])) for epoch in window}
            if fewest > 1 and len(orders) == 1 and all(orders.pop()):
                found.setdefault(lived.rank, int(window[1].first["step"]))
    return _finding(history, "shuffled once", [*found], min(found.values())) if found else []


def _one_batch_on_all(history: History) -> list[Finding]:
    """Return the finding that all ranks, which hold replicas and reduce their gradients, train on the same batches.

    Batches that are alike all the time are made up, to measure a program. Ranks that hold shards of a model share
    their batches, as they have to.
    """
    ranks = history.last
    if not reduce_as_replicas(ranks):
        return []
    held = [{int(e["step"]): e["batch"] for e in trained_loads(lived) if "batch" in e} for lived in ranks]
    steps = sorted(set.intersection(*map(set, held)))
    if len(steps) < _STEPS or len({held[0][step] for step in steps}) < 2:
        return []
    if any(len({own[step] for own in held}) > 1 for step in steps):
        return []
    return _finding(history, "one batch on all", [lived.rank for lived in ranks], steps[0], steps=len(steps))


def reduce_as_replicas(ranks: Sequence[RankHistory]) -> bool:
    """Return whether all ranks hold replicas of all parameters, and reduce as they train."""
    sharded = any(event.get("sharded") for lived in ranks for event in lived.of_kind("names"))
    if len(ranks) < 2 or sharded:
        return False
    kin = find_kin(ranks)
    if len(kin) != 1 or kin[0].parts is not None:
        return False
    return all(any("reduce" in e.get("op", "") and e["step"] for e in one.points("collective")) for one in ranks)


def _overlapping_shards(history: History) -> list[Finding]:
    """Return the finding that several ranks, which hold replicas, draw the same samples within an epoch.

    The last batch of a rank does not count if it may have been filled up, nor do as many samples as may have been added
    where they do not come out even. A rank that draws a sample twice does not draw each once at all.
    """
    ranks = history.last
    if not reduce_as_replicas(ranks):
        return []
    trained = [[epoch for epoch in epochs_of(lived) if epoch.trains] for lived in ranks]
    for epochs in zip(*trained, strict=False):
        by = told_apart_by(epochs)
        if by is None or any(epoch.first.get("draws") == "replacement" for epoch in epochs):
            continue
        drawn = [_drawn(epoch, by) for epoch in epochs]
        if None in drawn:
            continue
        held = [own for own in drawn if own is not None]
        shared = Counter(sample for own in held for sample in own)
        several = [sample for sample, count in shared.items() if count > 1]
        added = len(ranks) - 1 if "padded" in epochs[0].first else 0
        least = added if by == "index" else max(added, SHARE * len(shared))
        if len(several) > least:
            who = [lived.rank for lived, own in zip(ranks, held, strict=True) if any(s in own for s in several)]
            step = min(own[sample] for own in held for sample in several if sample in own)
            return _finding(history, "overlapping shards", who, step, count=len(several), drawn=len(shared))
    return []


def _drawn(epoch: Epoch, by: Told) -> dict[str, int] | None:
    """Return each sample with the step at which it was loaded; None if one came twice, or none is known.

    Nothing is added to an epoch that was broken off.
    """
    filled_up = "padded" in epoch.first and epoch.is_whole and len(epoch.loads) > 1
    samples = [*epoch.samples(by, until=-1 if filled_up else None)]
    found = dict(samples)
    return found if found and len(found) == len(samples) else None


def _never_drawn(history: History) -> list[Finding]:
    """Return the finding that ranks go through whole epochs, and no loader of any rank draws some of the samples.

    As many as a batch of each rank are left out where the last batch is dropped, and some where a sampler leaves out
    what is too long. A mistake in who has what leaves out half of a rank's share, or more.
    """
    ranks = history.last
    epochs = [epoch for lived in ranks for epoch in epochs_of(lived)]
    trained = [epoch for epoch in epochs if epoch.trains]
    if not trained or len({epoch.rank for epoch in trained}) < len(ranks) or not reduce_as_replicas(ranks):
        return []
    dataset, total = trained[0].dataset, trained[0].first.get("total")
    there = [epoch for epoch in epochs if epoch.dataset == dataset]
    if not dataset or not total or any(epoch.dataset != dataset or not epoch.is_whole for epoch in trained):
        return []
    if any("draws" in epoch.first for epoch in there) or told_apart_by(there) != "index":
        return []
    drawn = {sample for epoch in there for sample, _ in epoch.samples("index")}
    largest = max(len(event.get("indices") or ()) for epoch in trained for event in epoch.loads)
    if total - len(drawn) < max(largest * len(ranks), total / (2 * len(ranks))):
        return []
    count = min(sum(epoch.rank == lived.rank for epoch in trained) for lived in ranks)
    who, step = [lived.rank for lived in ranks], int(trained[0].first["step"])
    return _finding(history, "samples never drawn", who, step, count=total - len(drawn), total=total, epochs=count)


def _validated_on_training(history: History) -> list[Finding]:
    """Return the finding that samples are validated on which a rank has trained on, and others are not."""
    leak = find_leak(history.last)
    if leak is None:
        return []
    evidence = {"count": leak.samples, "of": leak.of, "whose": "it" if leak.own else "ranks"}
    return _finding(history, "validated on training", leak.ranks, leak.step, **evidence)


def _counted_twice(history: History) -> list[Finding]:
    """Return the finding that ranks add up a validation in which samples come twice that only fill up the shares."""
    padding = find_padding(history.last)
    if padding is None:
        return []
    evidence = {"count": padding.samples, "of": padding.of}
    return _finding(history, "counted twice", padding.ranks, padding.step, **evidence)


def _once_per_worker(history: History) -> list[Finding]:
    """Return the finding that each worker of a loader hands out all samples of a stream, so that each comes again.

    Samples are told apart by their content. The batches of the first iterator over a stream count, up to the next.
    """
    found = {lived.rank: repeated for lived in history.last if (repeated := _repeated(lived))}
    if not found:
        return []
    workers, step = found[min(found)]
    return _finding(history, "once per worker", [*found], step, workers=workers)


def _repeated(lived: RankHistory) -> tuple[int, int] | None:
    """Return the number of workers, and the step of the first sample that came as often as there are workers."""
    loads = lived.payloads("load")
    begun = next((n for n, event in enumerate(loads) if event.get("workers", 0) > 1), None)
    if begun is None:
        return None
    workers, times = loads[begun]["workers"], Counter[str]()
    step = 0
    for event in itertools.takewhile(lambda e: "workers" not in e or e is loads[begun], loads[begun:]):
        for sample in event.get("samples") or ():
            times[sample] += 1
            step = step or (int(event["step"]) if times[sample] == 2 else 0)
    often = [sample for sample, count in times.items() if count == workers]
    return (workers, step) if len(often) >= _SAMPLES and len(often) >= _MOST * len(times) else None


def _alike_in_workers(history: History) -> list[Finding]:
    """Return the finding that workers of one loader draw the same random numbers: they augment alike."""
    found: dict[int, tuple[int, str, int]] = {}
    for lived in history.last:
        seen: dict[tuple[int, str, str], int] = {}
        for event in lived.of_kind("worker"):
            for name, state in event["random"].items():
                # Those of one loader are told one after the other at the end of one step.
                other = seen.setdefault((int(event["step"]), name, state), event["worker"])
                if other != event["worker"]:
                    found.setdefault(lived.rank, (int(event["step"]), name, event["of"]))
    if not found:
        return []
    step, name, workers = found[min(found)]
    return _finding(history, "alike in workers", [*found], max(1, step), generator=name, workers=workers)


def drawn_alike(history: History) -> list[Finding]:
    """Return the finding that workers of loaders draw the same random numbers on all ranks, which hold replicas.

    Ranks that are seeded alike do so, and few mean to: it is a finding beside a control alone, whose ranks do not. A
    stream may be shuffled alike on purpose, before it is shared out: only samples that have an index count.
    """
    ranks = history.last
    if not reduce_as_replicas(ranks) or any(not e.get("indices") for one in ranks for e in one.payloads("load")):
        return []
    drawn = [_states(lived) for lived in ranks]
    shared = sorted(set.intersection(*({name for _, name in own} for own in drawn)))
    for name in shared:
        of_ranks = [{place: state for place, state in own.items() if place[1] == name} for own in drawn]
        if all(own == of_ranks[0] for own in of_ranks):
            step = min(int(event["step"]) for lived in ranks for event in lived.of_kind("worker"))
            return _finding(history, "alike on ranks", [lived.rank for lived in ranks], max(1, step), generator=name)
    return []


def _states(lived: RankHistory) -> dict[tuple[int, str], str]:
    """Return the state in which each worker of the first loader found each generator that it used."""
    found: dict[tuple[int, str], str] = {}
    for event in lived.of_kind("worker"):
        for name, state in event["random"].items():
            found.setdefault((event["worker"], name), state)
    return found


def _shared_position(history: History) -> list[Finding]:
    """Return the finding that several workers read a file which was open before, from one position for all."""
    found: dict[int, tuple[int, str]] = {}
    for lived in history.last:
        movers: dict[str, set[int]] = {}
        for event in lived.of_kind("worker"):
            for path in event["moved"]:
                movers.setdefault(path, set()).add(event["worker"])
                if len(movers[path]) > 1:
                    found.setdefault(lived.rank, (int(event["step"]), path))
    if not found:
        return []
    step, path = found[min(found)]
    return _finding(history, "shared file position", [*found], max(1, step), path=path)


def trained_loads(lived: RankHistory) -> list[PayloadEvent]:
    """Return the loads of batches that were trained on: the last one before each backward pass."""
    found: list[PayloadEvent] = []
    last: PayloadEvent | None = None
    point = trains_at(lived)
    for event in lived.events:
        if event["kind"] == "payload" and event["of"] == "load":
            last = event
        elif event["kind"] == "point" and event["point"] == point and last is not None:
            found.append(last)
            last = None
    return found


def _finding(history: History, cause: str, ranks: Sequence[int], step: int, **evidence: int | str) -> list[Finding]:
    return [Finding("samples", cause, tuple(sorted(ranks)), step, history.attempts[-1], evidence=evidence)]


_LAWS: tuple[Callable[[History], list[Finding]], ...] = (
    _first_batch_again,
    _once_per_worker,
    _one_order,
    _shuffled_once,
    _one_batch_on_all,
    _shared_position,
    _alike_in_workers,
    _validated_on_training,
    _counted_twice,
    _overlapping_shards,
    _never_drawn,
)
