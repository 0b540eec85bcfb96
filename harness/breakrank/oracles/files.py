"""Objects to two ranks that write, replace, remove or make the same path, or read what is being written, unordered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from breakrank.history import History
from breakrank.oracles import Abstain, Terms
from breakrank.ordering import Access, Pair, accesses
from breakrank.verdict import Finding

#: What operations do to a path, and how a sentence says it; what is only read has mode `r`.
_KINDS = {
    "rename": "replace",
    "move": "remove",
    "remove": "remove",
    "rmdir": "remove",
    "mkdir": "make",
    "open folder": "have",
}
_VERBS = {
    "read": "reads",
    "write": "writes",
    "replace": "renames another file to",
    "remove": "removes",
    "make": "makes",
    "have": "makes",
}
#: Pairs that do no harm: a file that is replaced as a whole is found whole, and a folder that may be there is left.
_HARMLESS = (
    *({"read"}, {"read", "replace"}, {"read", "have"}, {"read", "make"}),
    *({"have"}, {"have", "write"}, {"have", "replace"}),
)


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return one finding for each path that is touched so, those where ranks only replace it last."""
    findings: list[Finding] = []
    seen = any(e.get("accesses") for lived in history.ranks.values() for e in lived.of_kind("note"))
    for attempt in history.attempts:
        by_path: dict[str, list[Access]] = {}
        for access in accesses(history.attempt(attempt)):
            seen = True
            # What has bytes is a tensor.
            if "lo" not in access.event:
                by_path.setdefault(access.event["key"], []).append(access)
        for path, touching in by_path.items():
            # Who opens a lock does not care what it holds.
            pairs = [] if any(a.event["op"] == "lock" for a in touching) else list(_unordered(touching))
            if pairs:
                findings.append(_finding(path, min(pairs, key=_only_replaces), attempt))
    if not seen:
        raise Abstain("no reads and writes of files are on record")
    return sorted(findings, key=lambda finding: (finding.cause == "unordered renames", finding.step))


def _unordered(touching: Sequence[Access]) -> Iterator[Pair]:
    """Yield the pairs of accesses to one path by different threads that nothing orders and that may do harm.

    Of a thread's accesses of one kind only the last is kept: whoever does not come after it is found by it.
    """
    last: dict[tuple[object, str], Access] = {}
    for access in touching:
        for earlier in last.values():
            harm = {_kind(earlier), _kind(access)} not in _HARMLESS
            if harm and earlier.thread != access.thread and not earlier.precedes(access):
                yield Pair(earlier, access)
        last[access.thread, _kind(access)] = access


def _kind(access: Access) -> str:
    """Return what an access does to its path."""
    return "read" if access.event["mode"] == "r" else _KINDS.get(access.event["op"], "write")


def _only_replaces(pair: Pair) -> bool:
    return {_kind(access) for access in pair} == {"replace"}


def _finding(path: str, pair: Pair, attempt: int) -> Finding:
    cause = "unordered renames" if _only_replaces(pair) else "unordered file accesses"
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
    return f"{who} {_VERBS[_kind(access)]} {path}{f' ({site})' if site else ''}"
