"""Logical time: which step a rank is in, and how often it has entered each point of that step."""

from __future__ import annotations

#: A new step begins at the first of these after the last step ended. What comes in between (a checkpoint, an
#: evaluation's collective) still belongs to the step that ended.
OPENS_STEP = frozenset(("load", "forward", "backward", "optimize"))

MAIN = "main"


class Clock:
    """The logical time of one rank in one attempt.

    Steps count from 1; step 0 is everything before the first. Visits count from 1 in each step, and apart in each
    sequence (the main thread, or a helper thread).
    """

    def __init__(self) -> None:
        self.step = 0
        self.done = 0
        self._over = True
        self._visits: dict[tuple[str, str], int] = {}

    def enter(self, point: str, sequence: str = MAIN) -> tuple[int, int]:
        """Enter a point and return (step, visit)."""
        if self._over and sequence == MAIN and point in OPENS_STEP:
            self._over = False
            self.step += 1
            self._visits.clear()
        key = (sequence, point)
        visit = self._visits.get(key, 0) + 1
        self._visits[key] = visit
        return self.step, visit

    def next_visit(self, point: str) -> int:
        """Return the visit that the main thread's next entering of a point will be, where it opens no step."""
        return self._visits.get((MAIN, point), 0) + 1

    def leave_empty_load(self) -> None:
        """Take back the step that a load has opened, because the data was at its end."""
        if not self._over and list(self._visits) == [(MAIN, "load")] and self._visits[MAIN, "load"] == 1:
            self._over = True
            self.step -= 1

    def close_step(self) -> tuple[int, int]:
        """End the step: enter its point `step` and return (step, visit)."""
        if self._over:
            # A step of which no other point was seen: a program that says its steps by itself.
            self._over = False
            self.step += 1
            self._visits.clear()
        entered = self.enter("step")
        self.done = self.step
        self._over = True
        return entered
