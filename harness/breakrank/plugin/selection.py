"""The cases that pytest left for this session: how many there are, and those that it has not come to."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from breakrank.plugin import workers
from breakrank.plugin.command_line import PREFIX, given

#: The cases that the last session did not come to, in pytest's own cache.
_KEY = "breakrank/not_run"


class Selection:
    """Notes which of our cases are selected and which have run; `ids` are those that were asked for."""

    def __init__(self, config: pytest.Config, ids: Collection[str]) -> None:
        self._config = config
        self._ids = ids
        self._done: set[str] = set()
        self._begun: dict[str, None] = {}
        #: The cases that are left of those that were asked for, in order.
        self.selected: list[str] = []
        self._resumes = bool(given(config, "-resume"))

    def begin(self, nodeid: str) -> str:
        """Return the place of a case in the session, such as `[4/15]`, now that it begins."""
        self._begun.setdefault(nodeid)
        return f"[{list(self._begun).index(nodeid) + 1}/{max(len(self.selected), len(self._begun))}]"

    def pytest_sessionstart(self) -> None:
        """Refuse to go on where the last session left nothing. Raises `pytest.UsageError`."""
        if self._resumes and workers.received(self._config) is None:
            if self._cache is None:
                raise pytest.UsageError(
                    f"breakrank: {PREFIX}-resume needs pytest's cache; leave out -p no:cacheprovider"
                )
            if not self._left():
                raise pytest.UsageError(f"breakrank: the last session left nothing; leave out {PREFIX}-resume")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep what the last session has not come to, if that is asked for."""
        if self._resumes:
            left = self._left()
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in left])
            items[:] = [item for item in items if item.nodeid in left]

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

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Keep the names of what was not run, for the session that goes on."""
        idle = self._config.option.collectonly or given(self._config, "-dry-run")
        if self._cache is not None and self.selected and not idle and workers.received(self._config) is None:
            self._cache.set(_KEY, self.not_run)

    def words(self) -> str:
        """Say how many cases were not run, and the command that goes on; empty if all were."""
        left = self.not_run
        if not left:
            return ""
        typed = [str(word) for word in self._config.invocation_params.args]
        if self._cache is not None:
            command = [*typed, *([] if self._resumes else [f"{PREFIX}-resume"])]
        else:
            others = [word for word in typed if not word.startswith(f"{PREFIX}=")]
            command = [*others, f"{PREFIX}={','.join(left)}"]
        # The command has a line of its own: it is there to be copied.
        return f"{len(left)} not run; go on with\n  pytest {shlex.join(command)}"

    @property
    def _cache(self) -> pytest.Cache | None:
        cache: pytest.Cache | None = getattr(self._config, "cache", None)
        return cache

    def _left(self) -> frozenset[str]:
        kept = self._cache.get(_KEY, []) if self._cache is not None else []
        return frozenset(filter(self._ids.__contains__, map(str, kept if isinstance(kept, list) else [])))
