"""The cases that pytest left for this session: how many there are, and those that it has not come to."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from breakrank.plugin.command_line import PREFIX


class Selection:
    """Notes which of our cases are selected and which have run; `ids` are those that were asked for."""

    def __init__(self, config: pytest.Config, ids: Collection[str]) -> None:
        self._config = config
        self._ids = ids
        self._done: set[str] = set()
        self._begun: dict[str, None] = {}
        #: The cases that are left of those that were asked for, in order.
        self.selected: list[str] = []

    def begin(self, nodeid: str) -> str:
        """Return the place of a case in the session, such as `[4/15]`, now that it begins."""
        self._begun.setdefault(nodeid)
        return f"[{list(self._begun).index(nodeid) + 1}/{max(len(self.selected), len(self._begun))}]"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what is left."""
        self._take([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Note what is left in an xdist worker: each has the same."""
        self._take(ids)

    def _take(self, nodeids: Sequence[str]) -> None:
        self.selected = self.selected or [nodeid for nodeid in nodeids if nodeid in self._ids]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which cases have come to an end."""
        if report.when == "teardown" or not report.passed:
            self._done.add(report.nodeid)

    @property
    def not_run(self) -> list[str]:
        """The cases that the session did not come to."""
        return [nodeid for nodeid in self.selected if nodeid not in self._done]

    def words(self) -> str:
        """Say how many cases were not run, and the command that goes on; empty if all were."""
        left = self.not_run
        if not left:
            return ""
        command = [str(word) for word in self._config.invocation_params.args]
        remember = self._config.pluginmanager.get_plugin("breakrank-remember")
        if remember is None or remember.lack:
            # The history does not know what has run.
            command = [word for word in command if not word.startswith(f"{PREFIX}=")]
            command.append(f"{PREFIX}={','.join(left)}")
        elif not any(word.startswith(f"{PREFIX}-resume") for word in command):
            command.append(f"{PREFIX}-resume")
        # The command has a line of its own: it is there to be copied.
        return f"{len(left)} not run; go on with\n  pytest {shlex.join(command)}"
