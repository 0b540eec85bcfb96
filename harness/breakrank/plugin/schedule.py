"""The cases of a session in their order: what is left out, what comes first, and when no more is started."""

from __future__ import annotations

import math
import time

import pytest

from breakrank.memory.agenda import NOT_STARTED, Agenda
from breakrank.memory.spans import duration
from breakrank.plugin.items import ScenarioItem
from breakrank.plugin.options import Options
from breakrank.plugin.workers import Sent


class Schedule:
    """Leaves out the cases that a session has already, and keeps to the budget. Each process has one, and all agree."""

    def __init__(self, agenda: Agenda, options: Options, sent: Sent | None) -> None:
        self.agenda = agenda
        self._budget_s = options.budget_s
        #: When the budget is over, by the monotonic clock, which the processes of a machine share.
        self.until = sent.until if sent is not None else time.monotonic() + (options.budget_s or math.inf)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the cases that the session has, and put those first that are least known."""
        done = set(self.agenda.done)
        left_out = [item for item in items if isinstance(item, ScenarioItem) and item.nodeid in done]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]
        if self._budget_s is not None:
            # Tests of the user's own keep their places behind.
            ours = [item for item in items if isinstance(item, ScenarioItem)]
            others = [item for item in items if not isinstance(item, ScenarioItem)]
            items[:] = [*sorted(ours, key=lambda item: self.agenda.place(item.nodeid)), *others]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a case that would begin after the budget is over."""
        if self._budget_s is not None and isinstance(item, ScenarioItem) and time.monotonic() >= self.until:
            reason = f"{NOT_STARTED} of {duration(self._budget_s)} was over"
            item.tell(sentence=reason)
            pytest.skip(reason)
