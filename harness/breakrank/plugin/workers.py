"""The controller's word to its xdist workers: one seed, one way of collecting, one owner, one agenda."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest

_KEYS = (
    "breakrank_seed",
    "breakrank_exclusive",
    "breakrank_controller",
    "breakrank_agenda",
    "breakrank_until",
    "breakrank_width",
)


@dataclass(frozen=True)
class Sent:
    """The message to a worker. `pid` is the controller's: when it dies, nothing of ours outlives it.

    `agenda` is the text of an `Agenda`; `until` is the time of the monotonic clock at which the budget is over. `width`
    is that of the controller's terminal.
    """

    seed: int
    exclusive: bool
    pid: int
    agenda: str
    until: float
    width: int


def received(config: pytest.Config) -> Sent | None:
    """Return what the controller sent, or None where this process is no xdist worker."""
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is None or any(key not in given for key in _KEYS):
        return None
    return Sent(*(given[key] for key in _KEYS))


def width(config: pytest.Config) -> int:
    """Return the width of the terminal, which is the controller's."""
    sent = received(config)
    return sent.width if sent is not None else int(config.get_terminal_writer().fullwidth)


class Sender:
    """The controller's side."""

    def __init__(self, config: pytest.Config, seed: int, exclusive: bool, agenda: str, until: float) -> None:
        self._config = config
        self._values = (seed, exclusive, os.getpid(), agenda, until)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell one worker. (A worker sees every path as given, so it cannot know whether the user gave one.)"""
        node.workerinput.update(zip(_KEYS, (*self._values, width(self._config)), strict=True))
