"""Trials of the bit table: one small model is trained again and again by two ranks, and struck at one step.

`bit_trials.py RANK STORE CELLS RESULT` is one of two ranks; `measure` starts both. A trial trains from the same weights
on the same batches; rank 1 is struck at step 3, by the code that the faults of the family numeric use. The guards look
on and stop nothing, so that the end of each trial is seen.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from breakrank_agent.hooks.torch.tensor_memory import words_of
from breakrank_agent.protocol.bits import Corruption, Words

#: The places of the bits, and the models of corruption.
PLACES = ("weights", "gradients", "momenta", "activations", "sent", "received", "saved")
MODELS = ("bit", "stuck", "row")
#: The number of trials a cell, each with another tensor and element; the steps of a trial; and the struck step.
TRIALS, STEPS, STRUCK = 10, 6, 3
RANKS, BATCH, FEATURES, HIDDEN, CLASSES = 2, 16, 16, 16, 4
#: The norm of gradients is bounded by so many times the largest of the undisturbed run, and a loss may rise by so much.
NORM_FACTOR, LARGEST_RISE = 10.0, 1.0
#: Weights within so many units in the last place of the tensor's largest are those of the control but for rounding.
ROUNDING_ULPS = 4
#: The results of a trial, each with its letter.
RESULTS = {
    "masked": "=",
    "noticed by digest": "D",
    "noticed by bound": "B",
    "not finite": "N",
    "silent": "S",
}


@dataclass(frozen=True)
class Cell:
    """One cell of the table."""

    dtype: str
    place: str
    model: str
    bit: int

    def key(self) -> str:
        """Return the cell's name in the saved table."""
        return f"{self.dtype} {self.place} {self.model} {self.bit}"

    def corruption(self, trial: int) -> Corruption:
        """Return the words that go wrong in one trial."""
        draw = random.Random(f"{self.key()} {trial}")
        return Corruption(self.model, "any", draw.randrange(1 << 31), draw.randrange(1 << 31), self.bit)


@dataclass(frozen=True)
class Course:
    """One training: its weights at the end, and the largest norm and rise of the loss."""

    weights: list[torch.Tensor]
    norm: float
    rise: float
    apart: bool


class Trainer:
    """One rank: data and first weights, which are the same in each trial."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        draw = torch.Generator().manual_seed(7)
        self.first = [torch.randn(HIDDEN, FEATURES, generator=draw) / 4, torch.zeros(HIDDEN)]
        self.first += [torch.randn(CLASSES, HIDDEN, generator=draw) / 4, torch.zeros(CLASSES)]
        teacher = torch.randn(FEATURES, CLASSES, generator=draw)
        own = torch.Generator().manual_seed(11 + rank)
        self.inputs = [torch.randn(BATCH, FEATURES, generator=own) for _ in range(STEPS)]
        self.labels = [(inputs @ teacher).argmax(1) for inputs in self.inputs]

    def train(self, dtype: str, place: str = "", corruption: Corruption | None = None) -> Course:
        """Train once, and strike this rank at the place, if a corruption is given."""
        kind = getattr(torch, dtype)
        model = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)).to(kind)
        weights = list(model.parameters())
        with torch.no_grad():
            for weight, first in zip(weights, self.first, strict=True):
                weight.copy_(first)
        optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
        norm, rise, apart, last = 0.0, 0.0, False, float("inf")
        for step in range(1, STEPS + 1):
            due = corruption if _is_due(step, corruption) else None
            strike = Strike(due, place, self.rank)
            optimizer.zero_grad()
            handles = strike.watch(model)
            loss = functional.cross_entropy(model(self.inputs[step - 1].to(kind)), self.labels[step - 1])
            for handle in handles:
                handle.remove()
            loss.backward()
            norm = _larger(norm, reduce(weights, strike))
            optimizer.step()
            strike.after_step(weights, optimizer)
            rise, last = _larger(rise, loss.item() - last), loss.item()
            apart = apart or differ(weights, optimizer)
        return Course([weight.detach() for weight in weights], norm, rise, apart)


@dataclass(frozen=True)
class Strike:
    """The strike of one step, if one is due: each method strikes if the place is its own."""

    due: Corruption | None
    place: str
    rank: int

    def at(self, place: str, tensors: Sequence[torch.Tensor], ranks: Sequence[int] = (1,)) -> None:
        """Change the words of these tensors."""
        if self.due is not None and place == self.place and self.rank in ranks:
            with torch.no_grad():
                self.due.strike(words_of(place, tensors))

    def watch(self, model: nn.Module) -> list[torch.utils.hooks.RemovableHandle]:
        """Have the output of one layer changed in the next pass."""
        if self.due is None or self.place != "activations" or self.rank != 1:
            return []
        layer = model[self.due.tensor % len(model)]
        return [layer.register_forward_hook(lambda _, __, output: self.at("activations", [output]))]

    def after_step(self, weights: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        """Change weights or momenta in memory, or a checkpoint that all ranks load."""
        momenta = [optimizer.state[weight]["momentum_buffer"] for weight in weights]
        self.at("weights", weights)
        self.at("momenta", momenta)
        if self.due is not None and self.place == "saved":
            state = [*(weight.detach() for weight in weights), *momenta]
            for now, read in zip(state, read_again(state, self.due), strict=True):
                now.copy_(read)


def _is_due(step: int, corruption: Corruption | None) -> bool:
    """Return whether a step is struck: a stuck bit is at each step from then on."""
    return corruption is not None and (step == STRUCK or (corruption.model == "stuck" and step > STRUCK))


def _larger(one: float, other: float) -> float:
    """Return the larger number; one that is not a number is larger than any."""
    return one if one >= other or one != one else other


def read_again(state: list[torch.Tensor], corruption: Corruption) -> list[torch.Tensor]:
    """Save tensors, change words of one where they lie in the file, and load them."""
    file = io.BytesIO()
    torch.save(state, file)
    raw = bytearray(file.getvalue())
    tensors, begin = [], 0
    for tensor in state:
        content = bytes(words_of("saved", [tensor])[0].raw)
        begin = raw.index(content, begin)
        words = memoryview(raw)[begin : begin + len(content)]
        tensors.append(Words("saved", words, str(tensor.dtype)[6:], tensor.shape[-1]))
        begin += len(content)
    corruption.strike(tensors)
    return torch.load(io.BytesIO(raw), weights_only=True)


def reduce(weights: Sequence[torch.Tensor], strike: Strike) -> float:
    """Average the gradients over the ranks in one message; return their norm."""
    message = torch.cat([weight.grad.flatten() for weight in weights])
    strike.at("sent", [message])
    dist.all_reduce(message)
    message /= RANKS
    strike.at("received", [message])
    begin = 0
    for weight in weights:
        weight.grad.copy_(message[begin : begin + weight.numel()].view_as(weight))
        begin += weight.numel()
    strike.at("gradients", [weight.grad for weight in weights])
    return torch.linalg.vector_norm(torch.cat([weight.grad.flatten() for weight in weights]).double()).item()


def differ(weights: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer) -> bool:
    """Return whether a digest of weights and momenta is not the same on all ranks."""
    digest = hashlib.blake2b(digest_size=8)
    for words in words_of("state", [t for w in weights for t in (w.detach(), optimizer.state[w]["momentum_buffer"])]):
        digest.update(words.raw)
    own = torch.frombuffer(bytearray(digest.digest()), dtype=torch.int64)
    all_digests = [torch.empty_like(own) for _ in range(RANKS)]
    dist.all_gather(all_digests, own)
    return any(not torch.equal(own, other) for other in all_digests)


def result_of(trial: Course, control: Course) -> str:
    """Return the result of a trial, the same on all ranks."""
    bounded = trial.norm <= NORM_FACTOR * control.norm and trial.rise <= LARGEST_RISE
    finite = all(bool(weight.isfinite().all()) for weight in trial.weights)
    same = finite and all(map(_is_near, trial.weights, control.weights))
    seen = torch.tensor([not bounded, not finite, not same, trial.apart], dtype=torch.uint8)
    dist.all_reduce(seen, dist.ReduceOp.MAX)
    unbounded, broken, other, apart = map(bool, seen.tolist())
    if broken:
        return "not finite"
    if not other:
        return "masked"
    return "noticed by bound" if unbounded else "noticed by digest" if apart else "silent"


def _is_near(here: torch.Tensor, there: torch.Tensor) -> bool:
    room = ROUNDING_ULPS * torch.finfo(there.dtype).eps * there.abs().max().double()
    return bool(((here.double() - there.double()).abs() <= room).all())


def run(rank: int, store: str, cells: Sequence[Cell]) -> dict[str, list[int]]:
    """Run all trials of some cells as one rank; return for each cell the number of trials by result."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    trainer, table = Trainer(rank), {}
    controls = {dtype: trainer.train(dtype) for dtype in dict.fromkeys(cell.dtype for cell in cells)}
    for cell in cells:
        counts = dict.fromkeys(RESULTS, 0)
        for trial in range(TRIALS):
            course = trainer.train(cell.dtype, cell.place, cell.corruption(trial))
            counts[result_of(course, controls[cell.dtype])] += 1
        table[cell.key()] = list(counts.values())
    dist.destroy_process_group()
    return table


def measure(cells: Sequence[Cell]) -> dict[str, list[int]]:
    """Run the trials of some cells in two processes, which are warm for all of them."""
    with tempfile.TemporaryDirectory(prefix="bits-") as folder:
        store, asked, result = (Path(folder) / name for name in ("store", "cells", "result"))
        asked.write_text(json.dumps([dataclasses.asdict(cell) for cell in cells]))
        ranks = [
            subprocess.Popen([sys.executable, __file__, str(rank), str(store), str(asked), str(result)])
            for rank in range(RANKS)
        ]
        if any([rank.wait() for rank in ranks]):
            raise RuntimeError("a rank of the trials failed")
        table: dict[str, list[int]] = json.loads(result.read_text())
        return table


def main() -> None:
    rank, store, asked, result = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    table = run(rank, store, [Cell(**cell) for cell in json.loads(asked.read_text())])
    if rank == 0:
        result.write_text(json.dumps(table))


if __name__ == "__main__":
    main()
