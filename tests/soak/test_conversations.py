"""A thousand hostile conversations on each of our sockets."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.conversations import TALKS, hold

pytestmark = pytest.mark.soak
TRIES = 1000
#: The seconds after which a conversation counts as a hang. A limit, no more.
LIMIT_S = 120


class Hang(Exception):
    """A conversation that did not come to its end."""


@contextmanager
def within_the_limit() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", TALKS)
def test_a_thousand_conversations_come_to_nothing(kind):
    wrong: list[str] = []
    for seed in range(TRIES):
        with within_the_limit():
            wrong += hold(kind, seed, 1)
    hangs = sum(" Hang:" in line for line in wrong)
    print(f"\n{kind}: tries {TRIES}, tracebacks {len(wrong) - hangs}, hangs {hangs}")
    assert wrong == []
