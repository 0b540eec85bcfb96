"""Resources that all runs of a bench share: made once, when they are first asked for, and closed with the bench."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from breakrank.runners.kind import Resources


class Engine:
    """Notes that it was closed, and may fail to close."""

    def __init__(self, closed: list[str], fails: bool = False) -> None:
        self.closed, self.fails = closed, fails

    def close(self) -> None:
        self.closed.append(type(self).__name__)
        if self.fails:
            raise OSError("it does not close")


class Store(Engine):
    """Another resource."""


@pytest.fixture
def resources(tmp_path):
    return Resources(SimpleNamespace(id="1"), tmp_path, tmp_path / "agent", tmp_path / "agent", cold=True)


def test_one_of_a_class_is_made_when_it_is_first_asked_for(resources):
    made = resources.shared(Engine, lambda: Engine([]))
    assert resources.shared(Engine, lambda: pytest.fail("it is made already")) is made
    assert resources.shared(Store, lambda: Store([])) is not made


def test_each_is_closed_once_though_another_does_not_close(resources):
    closed: list[str] = []
    resources.shared(Engine, lambda: Engine(closed))
    resources.shared(Store, lambda: Store(closed, fails=True))
    with pytest.raises(OSError, match="it does not close"):
        resources.close()
    assert sorted(closed) == ["Engine", "Store"]
    resources.close()
    assert len(closed) == 2


def test_ranks_that_start_cold_are_forked_from_nothing(resources, tmp_path):
    assert resources.zygotes is None
    warm = Resources(SimpleNamespace(id="1"), tmp_path, tmp_path / "agent", tmp_path / "agent")
    assert warm.zygotes is not None
