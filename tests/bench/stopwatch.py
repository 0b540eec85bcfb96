"""A plugin for a pytest that is measured: writes how long its imports took to the file that BENCH_IMPORTS names.

Two times count as imports: from the process's start (BENCH_BEGAN, as time.monotonic() has it) until pytest has loaded
and configured its plugins, and the wait for the zygote until it has imported the framework. The zygote imports while
the first run is made ready. The time of that work is counted as ours.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from breakrank.runners.zygotes import Zygotes

_spent: list[float] = []


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    # The clock is the machine's, the same in both processes.
    _spent.append(time.monotonic() - float(os.environ["BENCH_BEGAN"]))
    wait = Zygotes._await

    def timed(self: Zygotes, *args: Any) -> Any:
        began = time.monotonic()
        try:
            return wait(self, *args)
        finally:
            _spent.append(time.monotonic() - began)

    Zygotes._await = timed


def pytest_unconfigure() -> None:
    assert len(_spent) == 2, "one zygote was expected"
    Path(os.environ["BENCH_IMPORTS"]).write_text(str(sum(_spent)))
