"""Looks at ranks that the Conductor watches, sent without being asked for: a proof costs no round trips."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from breakrank.host.blocked import Condition, look, main_moves


class Watches:
    """The ranks that are watched: by process, the number of the watch, the call, and the threads seen to poll."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say
        self._watched: dict[int, tuple[int, str]] = {}
        self._polled: dict[int, Collection[int]] = {}

    @property
    def any(self) -> bool:
        """True if some process is watched."""
        return bool(self._watched)

    def begin(self, pid: int, watch: int, call: str) -> None:
        """Watch a process, which is in `call` as its log says."""
        self._watched[pid] = watch, call
        self._polled.pop(pid, None)

    def end(self, pid: int) -> None:
        """Watch it no more."""
        self._watched.pop(pid, None)
        self._polled.pop(pid, None)

    def look(self) -> None:
        """Look once more at all of them, and say what is seen."""
        for pid, (watch, call) in self._watched.items():
            polled = self._polled.get(pid, ())
            told: dict[str, Any] = {"look": pid, "watch": watch, "moves": pid not in polled and main_moves(pid, call)}
            self._polled[pid] = ()
            if not told["moves"]:
                seen = look(pid, call, polled)
                told["seen"] = seen.to_json()
                if seen.condition is Condition.WAITS:
                    self._polled[pid] = seen.polls.keys()
            self._say(**told)
