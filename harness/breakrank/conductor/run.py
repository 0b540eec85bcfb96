"""The parts of one run that all its attempts share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from breakrank.files.disk_space import Room
from breakrank.host.session import Session
from breakrank.runners.base import Runner
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.log import Event


class Write(Protocol):
    """Writes one of the Conductor's events."""

    def __call__(self, kind: str, **values: Any) -> None:
        """Write an event of a kind, with its fields."""


@dataclass(frozen=True)
class Run:
    """One run into `folder`.

    `view` is where the ranks run. `room` is told of everything that the disk does not take. `steps` is how many the job
    makes, 0 where that is not known, `keep` how many bytes of each rank's history stay (0: all). `ends` is asked, with
    the hung event, whether ranks that do not move are ended; without it they are. `written` are the files of the
    working folder that ranks have written, in any attempt.
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
    ends: Callable[[Event], bool] | None = None
    written: set[str] = field(default_factory=set)
