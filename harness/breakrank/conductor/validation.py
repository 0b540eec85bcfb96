"""Messages and records of a rank, from its line and its log, checked before anything is made of them.

A rank is the user's program, and may write anything over what the agent in it writes. `Unfit` says what is wrong, in a
clause; the rank's record is damaged then, and nothing more is taken from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from breakrank_agent.plan import Plan
from breakrank_agent.protocol.checked import Unfit, check, is_flag, is_number, is_text, listing, parse, row, whole
from breakrank_agent.protocol.events import RankLine
from breakrank_agent.protocol.log import RECORD_LIMIT, Damaged
from breakrank_agent.protocol.trigger import POINTS

#: The longest event: one that is kept in few words may grow beyond what a rank may write in full.
MOST_EVENT = 2 * RECORD_LIMIT
#: The longest message on a rank's line.
MOST_MESSAGE = 1 << 16
#: The most children of one rank of which a log is read. The agent makes no more of each process.
MOST_CHILDREN = 1024

_NAME = re.compile(r"[\w-]{1,100}")
#: Of every event, and of those of which the Conductor makes something.
_EVENT = {"kind": is_text, "n": whole(), "seq": is_text, "step": whole(), "t": is_number}
_OPTIONAL = {"path": is_text, "op": is_text, "group": is_text, "site": is_text, "c": whole(), "p": whole()}
_OF_KIND = {
    "point": {"point": lambda value: value in POINTS, "visit": whole()},
    "strike": {"strike": whole(), "phase": is_text},
    "child": {"name": lambda value: type(value) is str and bool(_NAME.fullmatch(value))},
    "rank": {"world": whole(1, 1 << 16), "attempt": whole(), "rank": whole(), "pid": whole()},
}


def _is_lock(value: Any) -> bool:
    return type(value) is dict and all(map(is_text, (*value, *value.values())))


#: The messages of a rank on its line, by the name that makes each, and what may stand beside it.
_SAYS: dict[str, Callable[[Any], bool]] = {
    "park": whole(),
    "disk": whole(),
    "leaves": is_flag,
    "done": whole(),
    "diverged": is_text,
    "failed": is_text,
    "move": row(is_text, is_text),
    "blocked": is_text,
    "unlocked": is_text,
    "collective": row(is_text, is_text, whole(1)),
    "issued": row(is_text, whole(1)),
    "aside": is_flag,
    "idle": listing(is_text),
}
_BESIDE = {"thread": whole(), "more": is_flag, "tried": is_flag, "locks": listing(_is_lock)}
#: Our own code raises these when it is handed values that it was not made for.
_MEANINGLESS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, RecursionError)
_T = TypeVar("_T")


def parse_event(record: bytes) -> RankLine:
    """Return a record of a rank's log as the event that it is. Raises `Unfit`."""
    try:
        event: Any = parse(record, MOST_EVENT)
        check(event, _EVENT, _OPTIONAL)
        check(event, _OF_KIND.get(event["kind"], {}))
    except Unfit as error:
        raise Unfit(f"a record is no event: {error}") from None
    made: RankLine = event
    return made


class Line:
    """The line of a rank to the Conductor: one message after the other, under a plan."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self._plan = plan
        self._rank = rank
        self._heard = b""

    def take(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Take received bytes, and yield the messages that are complete. Raises `Unfit`."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            yield self._parse(line)
        if len(self._heard) > MOST_MESSAGE:
            raise Unfit(f"it said {len(self._heard)} bytes without an end of line")

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            message = parse(line, MOST_MESSAGE)
            said = [name for name in message if name in _SAYS]
            if len(said) != 1:
                raise Unfit(f"it has {len(said)} of the names that a message has one of")
            check(message, {said[0]: _SAYS[said[0]]}, _BESIDE)
            if "park" in message and not self._may_park(message["park"]):
                raise Unfit(f"the plan has no strike {message['park']} for which this rank waits")
        except Unfit as error:
            raise Unfit(f"what it said is no message: {error}") from None
        return message

    def _may_park(self, index: int) -> bool:
        strikes = self._plan.strikes
        return index < len(strikes) and self._rank in strikes[index].ranks


def made_of(what: str, make: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function on words of a rank; a value that it was not made for raises `Unfit`."""
    try:
        return make(*arguments)
    except (Unfit, Damaged):
        raise
    except _MEANINGLESS as error:
        raise Unfit(f"{what} makes no sense: {type(error).__name__}: {error}"[:300]) from None
