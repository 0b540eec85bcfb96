"""The parts of one run that all its attempts share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from breakrank.files.disk_space import Room
from breakrank.host.session import Session
from breakrank.runners.base import Launcher, Runner
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import HungEvent


class Write(Protocol):
    """Writes one of the Conductor's events."""

    def __call__(self, kind: str, **values: Any) -> None:
        """Write an event of a kind, with its fields."""


@dataclass(frozen=True)
class Run:
    """One run into `folder`.

    `view` is the folder of the ranks. `room` takes note of writes that the disk refuses. `steps` is the number that the
    job makes, 0 if it is not known, `keep` the number of bytes of each rank's history that stay (0: all). `ends` takes
    the hung event and decides whether ranks that do not move are ended; without it they are. `written` are the files of
    the working folder that ranks have written, in any attempt. From the moment `over_at` (of the monotonic clock) on
    the ranks are to end, after a step.
    """

    plan: Plan
    folder: Path
    session: Session
    runner: Runner
    view: View
    room: Room
    write: Write
    steps: int = 0
    keep: int = 0
    ends: Callable[[HungEvent], bool] | None = None
    written: set[str] = field(default_factory=set)
    over_at: float = math.inf

    @functools.cached_property
    def launcher(self) -> Launcher | None:
        """The part of the runner that waits for ranks which another program starts; None if it starts them itself."""
        return self.runner if isinstance(self.runner, Launcher) else None
