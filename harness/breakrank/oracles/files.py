"""Objects to two ranks that write, replace, remove or make the same path, or read what is being written, unordered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from breakrank.analysis.happens_before import Access, Pair, accesses
from breakrank.analysis.moments import clocks_of
from breakrank.history.reader import History
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding
from breakrank_agent.protocol.events import AccessEvent

PROPERTY = "files"

#: The kinds of operations on a path, and their verbs in a sentence; an operation of mode `r` is always a read.
_KINDS = {
    "rename": "replace",
    "move": "remove",
    "remove": "remove",
    "rmdir": "remove",
    "mkdir": "make",
    "open folder": "have",
    "append": "append",
    "map": "map",
}
_VERBS = {
    "read": "reads",
    "write": "writes",
    "replace": "renames another file to",
    "remove": "removes",
    "make": "makes",
    "have": "makes",
    "append": "appends to",
    "map": "maps, to change it,",
}
#: Pairs that do no harm: a file that is replaced as a whole is found whole, and a folder that may be there is left.
#: The oracle `race` sees the changed bytes of a mapping, and this one does not.
_HARMLESS = (
    *({"read"}, {"read", "replace"}, {"read", "have"}, {"read", "make"}),
    *({"have"}, {"have", "write"}, {"have", "replace"}, {"map"}),
)
#: Pairs of one kind of which only the order is not fixed, with their causes: the lesser findings.
_ONLY_UNORDERED = {"replace": "rename race", "append": "append race"}


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return one finding for each path that is touched so; last those where ranks only replace it, or append to it."""
    findings: list[Finding] = []
    seen = any(e.get("accesses") for lived in history.ranks.values() for e in lived.of_kind("note"))
    for attempt in history.attempts:
        by_path: dict[str, list[Access]] = {}
        for access in accesses(history.attempt(attempt), clocks_of(history, attempt)):
            seen = True
            # An access with a range of bytes in memory is a tensor's.
            if "lo" not in access.event:
                by_path.setdefault(access.event["key"], []).append(access)
        for path, touching in by_path.items():
            # The content of a lock file matters to no rank that opens it.
            pairs = [] if any(a.event["op"] == "lock" for a in touching) else list(_unordered(touching))
            if pairs:
                findings.append(_finding(path, min(pairs, key=lambda p: bool(_lesser(p))), attempt))
    if not seen:
        raise Abstain("no reads and writes of files are on record")
    return sorted(findings, key=lambda finding: (finding.cause in _ONLY_UNORDERED.values(), finding.step))


def _unordered(touching: Sequence[Access]) -> Iterator[Pair]:
    """Yield the pairs of accesses to one path by different threads that nothing orders and that may do harm.

    Of a thread's accesses of one kind to the same bytes only the last is kept: whoever does not come after it is found
    by it.
    """
    last: dict[tuple[object, str], dict[tuple[int, int], Access]] = {}
    for access in touching:
        kind = _kind(access)
        for (thread, theirs), found in last.items():
            if thread != access.thread and {theirs, kind} not in _HARMLESS:
                yield from (Pair(one, access) for one in found.values() if _meet(one, access))
        _keep(last.setdefault((access.thread, kind), {}), access)


def _meet(one: Access, other: Access) -> bool:
    """Return whether two accesses touch the same bytes with nothing between them."""
    (lo, hi), (begin, end) = _bytes(one), _bytes(other)
    return lo < end and begin < hi and not one.precedes(other)


def _bytes(access: Access) -> tuple[float, float]:
    """Return the range of bytes that an access touches: all of them, if it does not say which."""
    lo, hi = access.event.get("bytes", (0, inf))
    return lo, hi


def _keep(found: dict[tuple[int, int], Access], access: Access) -> None:
    """Keep a thread's access by its bytes; one that goes on where the last one ended is one with it."""
    lo, hi = access.event.get("bytes", (0, 0))
    newest = next(reversed(found), (0, 0))
    if hi and newest in found and newest[1] == lo and found[newest].clock == access.clock:
        del found[newest]
        lo = newest[0]
        joined: AccessEvent = {**access.event, "bytes": [lo, hi]}
        access = replace(access, event=joined)
    found.pop((lo, hi), None)
    found[lo, hi] = access


def _kind(access: Access) -> str:
    """Return what an access does to its path."""
    return "read" if access.event["mode"] == "r" else _KINDS.get(access.event["op"], "write")


def _lesser(pair: Pair) -> str:
    """Return the cause of a pair of which only the order is not fixed, else nothing."""
    kinds = {_kind(access) for access in pair}
    return _ONLY_UNORDERED.get(kinds.pop(), "") if len(kinds) == 1 else ""


def _finding(path: str, pair: Pair, attempt: int) -> Finding:
    cause = _lesser(pair) or "file race"
    ranks = tuple(sorted({access.rank for access in pair}))
    step = min(access.event["step"] for access in pair)
    places = tuple(str(access.event.get("site") or access.event["op"]) for access in pair)
    evidence = {"path": path, "one": _words(pair.one, path), "other": _words(pair.other, path)}
    return Finding("files", cause, ranks, step, attempt, places, evidence)


def _words(access: Access, path: str) -> str:
    """Say who does what to the path, and where."""
    rank, name = access.thread
    who = f"rank {rank}" if name == "main" else f"{name} of rank {rank}"
    site = access.event.get("site")
    lo, hi = access.event.get("bytes", (0, 0))
    what = f"bytes {lo} to {hi} of {path}" if hi else path
    return f"{who} {_VERBS[_kind(access)]} {what}{f' ({site})' if site else ''}"
