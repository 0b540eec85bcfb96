"""The record by which races are found: accesses to bytes, and syncs that order threads and ranks.

An `access` names a storage by its key: `@3` is one of this process alone, `device:inode` one that ranks share, and
anything else a path. A `sync` says that a thread has got (`acquire`) or is about to give (`release`) something that
orders it with others. A release is written before it happens, an acquire after it, so that their order on record is the
real one. Keys that begin with `shared:` mean the same in every rank; any others are those of one process. An acquire
with `ended`, the name of a child of the rank, comes after all that this child has done.

A storage that only the thread which made it has touched is not on record. Its last accesses are kept, and written when
another thread comes to it, with the number of syncs (`at`) that its thread had on record then.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional

from breakrank_agent.agent.recorder import Recorder
from breakrank_agent.agent.sequences import STRANGE
from breakrank_agent.agent.thread_scheduler import Turns
from breakrank_agent.protocol.log import members

#: The most different accesses that are known at a time, to leave out repeats, and the most of which the text is kept.
_SEEN, _TEXTS = 1 << 16, 1 << 12
#: The most different accesses by the thread that made a storage that are kept until another thread touches it.
KEPT = 16


class Span(NamedTuple):
    """The bytes that a tensor covers of its storage: from `lo` up to `hi`, with gaps if `shape` is not empty.

    `strides` are in bytes, and so is `item`, the size of one element. `pieces` are the ranges of bytes that an index
    names, where there are several.
    """

    lo: int
    hi: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    item: int = 0
    pieces: tuple[tuple[int, int], ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return it as facts of an event."""
        if self.pieces:
            return {"lo": self.lo, "hi": self.hi, "pieces": self.pieces}
        if not self.shape:
            return {"lo": self.lo, "hi": self.hi}
        return {"lo": self.lo, "hi": self.hi, "shape": self.shape, "strides": self.strides, "item": self.item}


class Kept(NamedTuple):
    """An access that is not on record yet: what it did, where, and after how many syncs."""

    step: int
    at: int
    facts: dict[str, Any]


class Accesses:
    """The record of one rank's accesses and syncs."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._sequences = recorder.sequences
        #: The scheduler of this rank's threads, under a controlled schedule: its picks are on record.
        self.turns: Optional[Turns] = None
        self._syncs: dict[str, int] = {}
        self._seen: dict[Any, int] = {}
        self._numbers: dict[str, int] = {}
        self._renewals = 0
        #: True once a thread of the user's was started: before the first, all that the rank does is in order.
        self.threaded = False

    def begin_anew(self) -> None:
        """Begin the record of a process of its own, which has one thread, and no schedule."""
        self.turns = None
        self._syncs.clear()
        self._seen.clear()
        self.threaded = False

    def number(self, what: str) -> int:
        """Return the next number of a kind of thing, from 1."""
        self._numbers[what] = self._numbers.get(what, 0) + 1
        return self._numbers[what]

    def sync(self, do: str, key: str, **facts: Any) -> None:
        """Record that this thread has acquired something, or is about to release it."""
        recorder = self._recorder
        if not recorder.sees:
            return
        name = self._sequences.current()
        if self._sequences.strange(name):
            return
        self._syncs[name] = self._syncs.get(name, 0) + 1
        recorder.record("sync", do=do, key=key, **facts, **self._pick())

    def access(
        self,
        op: str,
        mode: str,
        key: str,
        span: Optional[Span],
        site: Optional[str] = None,
        turn: Optional[int] = None,
        tensor: str = "",
        bytes: Optional[tuple[int, int]] = None,
        whole: bool = False,
    ) -> None:
        """Record that this thread reads, writes or changes some bytes, or all of a file where no span is given.

        At full speed, the same access again is left out until the thread has synced. `tensor` says what it is the first
        time, `bytes` which ones of a file. `whole`: it is an atomic read-modify-write.
        """
        recorder = self._recorder
        if not recorder.sees:
            return
        name = self._sequences.current()
        if self._sequences.strange(name):
            return
        text = _text(op, mode, key, span, site, whole)
        if self.turns is None:
            same = (name, text, bytes)
            since = self.since(name)
            if self._seen.get(same) == since:
                return
            if len(self._seen) >= _SEEN:
                self._seen.clear()
            self._seen[same] = since
        me = self.turns.me() if self.turns is not None else None
        pick = me.take_pick() if me is not None else None
        if tensor or bytes or turn is not None:
            once = {"tensor": tensor or None, "bytes": bytes, "turn": turn, "pick": pick}
            recorder.record_text("access", text + members({k: v for k, v in once.items() if v is not None}))
        else:
            recorder.touch(name, text, pick)

    def forget_old(self) -> None:
        """Forget the accesses before each thread's last sync: they are on record anew in any case."""
        self._seen = {same: since for same, since in self._seen.items() if since == self.since(same[0])}
        _text.cache_clear()

    def since(self, name: str) -> int:
        """Return a number that grows with each sync of a thread, after which its accesses are on record anew."""
        return self._syncs.get(name, 0) + self._renewals

    def renew(self) -> None:
        """Record repeats of known accesses once more: a collective begins."""
        self._renewals += 1

    def keep(self, kept: dict[Any, Kept], op: str, mode: str, span: Span, site: str) -> None:
        """Keep an access to a storage that is this thread's own so far."""
        at = self._syncs.get(self._sequences.current(), 0)
        facts = {"op": op, "mode": mode, **span.facts(), "site": site}
        kept.pop((mode, span, site), None)
        kept[mode, span, site] = Kept(self._recorder.clock.step, at, facts)
        if len(kept) > KEPT:
            del kept[next(iter(kept))]

    def publish(self, owner: str, key: str, kept: dict[Any, Kept], **facts: Any) -> None:
        """Record the accesses that were kept of a storage, now that another thread touches it."""
        for one in kept.values() if not owner.startswith(STRANGE) else ():
            self._recorder.record_of(owner, "access", key=key, at=one.at, **one.facts, **facts)
        kept.clear()

    def yielded(self, name: str, pick: int) -> None:
        """Record a pick of which no other event came."""
        self._recorder.record_of(name, "sync", do="yield", key="", pick=pick)

    def _pick(self) -> dict[str, int]:
        me = self.turns.me() if self.turns is not None else None
        pick = me.take_pick() if me is not None else None
        return {} if pick is None else {"pick": pick}


@functools.lru_cache(maxsize=_TEXTS)
def _text(op: str, mode: str, key: str, span: Optional[Span], site: Optional[str], whole: bool) -> str:
    """Return the facts of an access as JSON: it comes again and again."""
    where = span.facts() if span is not None else {}
    said = {} if site is None else {"site": site}
    return members({"op": op, "mode": mode, "key": key, **where, **said, **({"whole": True} if whole else {})})


def process_key(rank: int, name: str) -> str:
    """Return the key of the start and the end of a rank's child."""
    return f"shared:process:{rank}:{name}"


def shared_at(address: int) -> Optional[tuple[str, int]]:
    """Return `device:inode` and the offset in it of the shared mapping that holds `address`, from /proc/self/maps."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        for line in file:
            span, rights, offset, device, inode = line.split(None, 5)[:5]
            start, end = (int(part, 16) for part in span.split("-"))
            if start <= address < end:
                return (f"{device}:{inode}", int(offset, 16) + address - start) if rights[3] == "s" else None
    return None
