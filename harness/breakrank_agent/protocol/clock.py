"""Logical time: which step a rank is in, and how often it has entered each point of that step."""

from __future__ import annotations

#: A new step begins at the first of these after the last step ended. A point in between (a checkpoint, an
#: evaluation's collective) still belongs to the step that ended. A program that says its steps may have no other point.
OPENS_STEP = frozenset(("load", "forward", "backward", "optimize", "step"))

MAIN = "main"


class Clock:
    """The logical time of one rank in one attempt.

    Steps count from 1; step 0 is everything before the first. Visits count from 1 in each step, and apart in each
    sequence (the main thread, or a helper thread).
    """

    __slots__ = ("_others", "_over", "_visits", "done", "step")

    def __init__(self) -> None:
        self.step = 0
        self.done = 0
        self._over = True
        #: Visits of this step: of the main thread by point, of others by sequence and point.
        self._visits: dict[str, int] = {}
        self._others: dict[tuple[str, str], int] = {}

    def enter(self, point: str) -> tuple[int, int]:
        """Enter a point of the main thread and return (step, visit). The point `step` ends the step."""
        if self._over and point in OPENS_STEP:
            self._open()
        visits = self._visits
        visit = visits[point] = visits.get(point, 0) + 1
        if point == "step":
            self.done = self.step
            self._over = True
        return self.step, visit

    def enter_beside(self, point: str, sequence: str) -> tuple[int, int]:
        """Enter a point of another sequence and return (step, visit)."""
        if point == "step":
            return self.enter(point)
        visit = self._others[sequence, point] = self._others.get((sequence, point), 0) + 1
        return self.step, visit

    def next_visit(self, point: str) -> int:
        """Return the visit that the main thread's next entering of a point will be, where it opens no step."""
        return self._visits.get(point, 0) + 1

    def _open(self) -> None:
        self._over = False
        self.step += 1
        self._visits.clear()
        self._others.clear()

    def leave_empty_load(self) -> None:
        """Take back the step that a load has opened, because the data was at its end."""
        if not self._over and self._visits == {"load": 1}:
            self._over = True
            self.step -= 1
