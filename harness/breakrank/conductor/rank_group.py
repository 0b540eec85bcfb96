"""The ranks of one attempt: their processes, the places of their files, and when one of them last moved."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from breakrank.conductor.rank import Rank
from breakrank.conductor.run import Run
from breakrank.files.disk_space import unwritable
from breakrank.history.reader import lines_of, records_of


class RankGroup:
    """The ranks of one attempt, by number. `moved` is when one of them, or the Conductor for it, last moved."""

    def __init__(self, run: Run, number: int) -> None:
        self.number = number
        self.ranks: dict[int, Rank] = {}
        self.moved = time.monotonic()
        #: The step after which the ranks were told to end; 0 if they were not.
        self.ends_after = 0
        #: The place of everything that is kept of the attempt, and of everything that ranks reach.
        self.records, self.reached = records_of(run.folder, number), lines_of(run.folder, number)
        self._run = run

    def make_folders(self) -> None:
        """Make the places of the attempt's files. Raises `BreakrankError`."""
        try:
            for folder in (self.records, self.reached.parent, self.reached):
                folder.mkdir(mode=0o700, exist_ok=True)
            plan = self.reached.parent / "plan.json"
            if not plan.exists():
                # An elastic job's later attempts have fewer ranks, and the same plan.
                plan.write_text(self._run.plan.dumps())
        except OSError as error:
            raise unwritable(f"cannot begin attempt {self.number}", self._run.folder.parent, error) from None

    def log_of(self, number: int, child: str = "") -> Path:
        """Return the place of the log of a rank, or that of its child."""
        name = f"rank-{number}.{child}.log" if child else f"rank-{number}.log"
        return self.reached / name

    def write(self, kind: str, **values: Any) -> None:
        """Write an event of the attempt."""
        self._run.write(kind, attempt=self.number, **values)

    def move(self) -> None:
        """Take note that a rank moves now."""
        self.moved = time.monotonic()

    def answer(self, number: int, message: dict[str, Any]) -> None:
        """Send a message to the agent of a rank."""
        self.move()
        # A rank that was killed where it waited needs no answer.
        with contextlib.suppress(OSError):
            self.ranks[number].process.channel.send(json.dumps(message).encode() + b"\n")

    @property
    def live(self) -> dict[int, Rank]:
        """The ranks that have not ended yet."""
        return {number: rank for number, rank in self.ranks.items() if rank.live}

    @property
    def failed(self) -> bool:
        """True if a rank has ended otherwise than well."""
        return any(rank.failed for rank in self.ranks.values())

    @property
    def incomplete(self) -> bool:
        """True if ranks of the group are still to come."""
        return any(len(self.ranks) < rank.process.world for rank in self.ranks.values())
