"""Workers of a DataLoader: the random numbers that each draws, and the files whose position they share.

A worker is no rank, and has no log. It writes what it saw of its first batches onto a board, memory that it shares with
the rank, which records it at the end of a step. A worker that was forked has the generators of the rank in the state in
which they were, and the rank's open files with one position for all.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
import stat
import sys
from typing import Any, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose

WAITS_FOR = "torch.utils.data.dataloader"

#: The bytes of a board that a worker has, and how many of its batches it looks at.
_SLOT, _BATCHES = 4096, 4
#: The most boards of earlier iterators that are still waited for.
_BOARDS = 8
#: The depth to which the objects that a dataset holds are looked into, and the most of them.
_DEPTH, _MOST = 3, 64


def install(agent: Agent) -> None:
    """Watch the workers of each iterator that is made from now on."""
    from torch.utils.data import dataloader

    workers = _Workers(agent)
    interpose(dataloader._MultiProcessingDataLoaderIter, "__init__", workers.begin, workers.begun, workers.leave)


class _Workers:
    """The boards of this rank's iterators; in a worker, the one that it writes onto."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._boards: list[tuple[mmap.mmap, int]] = []
        #: The board of the iterator whose workers are being forked, and the files that are open then.
        self._current: Optional[mmap.mmap] = None
        self._files: dict[int, tuple[int, int]] = {}
        self._watch: Optional[_Watch] = None
        self._sees_fetches = False

    def begin(self, _: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        """Make a board for the workers that are about to be forked."""
        if not self._agent.over and loader.num_workers > 1:
            with self._agent.quietly():
                self._current = mmap.mmap(-1, _SLOT * loader.num_workers)
            # Workers that were not forked, or have no batch to fetch, write onto none.
            self._boards = [*self._boards[-_BOARDS:], (self._current, loader.num_workers)]
            if self.tell not in self._agent.on.step_end:
                self._agent.on.step_end.append(self.tell)
            self._files = _open_files()
            self._see_fetches()

    def _see_fetches(self) -> None:
        """Wrap, once, what puts batches together in workers: a rank without any does so itself, and is not to pay."""
        from torch.utils.data._utils import fetch

        if not self._sees_fetches:
            self._sees_fetches = True
            for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
                interpose(kind, "fetch", self.fetch, self.fetched)

    def begun(self, *_: Any) -> None:
        """Forget the board in the rank: workers have been forked with it."""
        self._current = None

    leave = begun

    def fetch(self, fetcher: Any, *_: Any) -> Optional[_Watch]:
        """In a worker, look at what may change while it puts a batch together."""
        if self._current is None or (self._watch is not None and self._watch.batches >= _BATCHES):
            return None
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        if info is None:
            return None
        if self._watch is None:
            self._watch = _Watch(info.id, fetcher.dataset, self._files)
        self._agent.guard(self._watch.before)
        return self._watch

    def fetched(self, watch: Optional[_Watch], _: Any) -> None:
        """Write onto the board what has changed."""
        if watch is not None and self._current is not None:
            self._agent.guard(watch.after, self._current)

    def tell(self) -> None:
        """Record what is on the boards by now; a board that all workers have written onto is done with."""
        if self._current is not None:
            return
        left = []
        for board, count in self._boards:
            told = [text for worker in range(count) if (text := _read(board, worker))]
            if len(told) < count:
                left.append((board, count))
                continue
            for text in told:
                self._agent.record("worker", of=count, **json.loads(text))
            board.close()
        self._boards = left


class _Watch:
    """The generators of one worker that have moved, and the files that were moved in."""

    def __init__(self, worker: int, dataset: Any, files: dict[int, tuple[int, int]]) -> None:
        self._worker = worker
        #: The number of batches that were looked at.
        self.batches = 0
        found = _found(dataset)
        self._generators = found.generators
        self._files = {} if found.locks else files
        self._states: dict[str, str] = {}
        self._used: dict[str, str] = {}
        self._moved: set[str] = set()
        self._places: dict[int, int] = {}

    def before(self) -> None:
        """Look at the generators before the first batch, and at positions before each."""
        if not self.batches:
            self._states = self._look()
        self._places = {number: os.lseek(number, 0, os.SEEK_CUR) for number, which in self._still_open()}

    def after(self, board: mmap.mmap) -> None:
        """Look again, and write it down, if it is new."""
        if not self.batches:
            now = self._look()
            self._used = {name: state for name, state in self._states.items() if now.get(name) != state}
        self.batches += 1
        for number, place in self._places.items():
            if os.lseek(number, 0, os.SEEK_CUR) != place:
                self._moved.add(os.path.basename(os.readlink(f"/proc/self/fd/{number}")))
        values = {"worker": self._worker, "random": self._used, "moved": sorted(self._moved)}
        if self.batches == _BATCHES or (self.batches == 1 and not self._files):
            _write(board, self._worker, json.dumps(values).encode())
            self.batches = _BATCHES

    def _still_open(self) -> list[tuple[int, tuple[int, int]]]:
        return [(number, which) for number, which in self._files.items() if _which(number) == which]

    def _look(self) -> dict[str, str]:
        return {name: state for name, held in self._generators.items() if (state := _state(held))}


class _Found(NamedTuple):
    """The generators of random numbers that are there, by name, and whether processes share a lock."""

    generators: dict[str, Any]
    locks: bool


def _found(dataset: Any) -> _Found:
    """Return the generators of the modules and those that a dataset holds, and whether it holds a lock."""
    import random

    import torch

    generators: dict[str, Any] = {"random": random, "torch": torch.default_generator}
    if "numpy" in sys.modules:
        generators["numpy.random"] = sys.modules["numpy"].random
    locks, left = False, [("dataset", dataset, _DEPTH)]
    for _ in range(_MOST):
        if not left:
            break
        name, value, depth = left.pop(0)
        if _state(value):
            generators[name] = value
        elif type(value).__module__ == "multiprocessing.synchronize":
            locks = True
        elif depth and not hasattr(type(value), "numpy"):
            held = getattr(value, "__dict__", None)
            inner = held.items() if isinstance(held, dict) else ()
            left += [(f"{name}.{key}", one, depth - 1) for key, one in inner]
            if isinstance(value, (list, tuple)):
                left += [(f"{name}[{i}]", one, depth - 1) for i, one in enumerate(value[:8])]
    return _Found(generators, locks)


def _state(generator: Any) -> str:
    """Return a digest of the state of a generator of random numbers; empty for anything else."""
    import random

    kind, text = type(generator), b""
    if generator is random or isinstance(generator, random.Random):
        text = repr(generator.getstate()).encode()
    elif kind.__module__ == "torch._C" and kind.__name__ == "Generator":
        text = bytes(generator.get_state().tolist())
    elif kind.__module__.startswith("numpy.random") and hasattr(generator, "bit_generator"):
        text = repr(generator.bit_generator.state).encode()
    elif (kind.__module__.startswith("numpy.random") or getattr(generator, "__name__", "") == "numpy.random") and (
        hasattr(generator, "get_state")
    ):
        text = repr([part.tolist() if hasattr(part, "tolist") else part for part in generator.get_state()]).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest() if text else ""


def _open_files() -> dict[int, tuple[int, int]]:
    """Return the regular files that are open to be read from a position, by their descriptors."""
    found = {}
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        which = _which(int(name))
        if which is not None:
            found[int(name)] = which
    return found


def _which(number: int) -> Optional[tuple[int, int]]:
    """Return device and inode of a regular file that is open to be read; None for anything else."""
    try:
        status, flags = os.fstat(number), fcntl.fcntl(number, fcntl.F_GETFL)
    except OSError:
        return None
    reads = flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_APPEND
    return (status.st_dev, status.st_ino) if number > 2 and stat.S_ISREG(status.st_mode) and reads else None


def _write(board: mmap.mmap, worker: int, text: bytes) -> None:
    """Write into a worker's slot, last of all its length; what does not fit is left out."""
    if len(text) <= _SLOT - 4:
        at = worker * _SLOT
        board[at + 4 : at + 4 + len(text)] = text
        board[at : at + 4] = len(text).to_bytes(4, "little")


def _read(board: mmap.mmap, worker: int) -> str:
    at = worker * _SLOT
    size = int.from_bytes(board[at : at + 4], "little")
    return board[at + 4 : at + 4 + size].decode()
