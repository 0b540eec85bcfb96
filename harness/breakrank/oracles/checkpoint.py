"""Objects to checkpoints that are not on disk, or not restored in full: lost, torn, mixed, or restored in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from breakrank.analysis.happens_before import overwritten_in_turns
from breakrank.analysis.left_saves import cleared, outdated, shows_saves, vanished
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding, name_ranks
from breakrank_agent.protocol.events import AccessEvent, LeftEvent, LoadedEvent, PayloadEvent, PointEvent

PROPERTY = "checkpoint"


class _Touch(NamedTuple):
    """An access to a file, by a rank."""

    rank: int
    event: AccessEvent


class _Write(NamedTuple):
    """A file that a rank has finished writing."""

    rank: int
    event: PayloadEvent


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Look for a save where the control had made its first, for restores of what nobody saved, and at what is left.

    `left` are the files that ranks wrote, as they lay on disk when the last attempt was over.
    """
    loads = _useless_loads(history)
    if loads:
        return loads
    if control is None:
        raise Abstain("there is no control that says whether checkpoints belong to the job")
    first = min((int(e["step"]) for lived in control.ranks.values() for e in lived.payloads("save")), default=None)
    if first is None and not _left(history) and not any(lived.of_kind("restored") for lived in control.last):
        raise Abstain("the control saved no checkpoint")
    wrong = [
        *_torn(history, control),
        *_of_another(history),
        *_mixed(history),
        *_lost(history, control),
        *_destroyed(history, control),
        *vanished(history, control),
        *cleared(history, control),
        *outdated(history),
    ]
    wrong += _in_part(history, control)
    if wrong or first is None or any(lived.payloads("save") for lived in history.ranks.values()):
        return wrong
    if not _came_past(history, first):
        raise Abstain(f"the run ended before its first checkpoint, which the control saved at step {first}")
    what = f"no rank finished a save, and the control saved its first at step {first}"
    return [Finding("checkpoint", "no checkpoint", (), first, history.attempts[-1], evidence={"what": what})]


def _useless_loads(history: History) -> list[Finding]:
    """Return the first load of a state that changed nothing: nothing of it fitted, or it was the module's own memory.

    A module without parameters, and a state without keys, fit each other. A rank that hands its state out has its own,
    where others load a copy of that at the same line.
    """
    loads_of = [(lived, event) for lived in history.ranks.values() for event in lived.of_kind("loaded")]
    copied = {(lived.attempt, e["step"], e["site"]) for lived, e in loads_of if e["fitted"] and not e["own"]}
    found: dict[tuple[int, int, str, str], list[tuple[int, LoadedEvent]]] = {}
    for lived, event in loads_of:
        nothing = event["keys"] and not event["fitted"] and event["lacking"] and event["unread"]
        own = event["own"] and event["site"] and (lived.attempt, event["step"], event["site"]) not in copied
        cause = "nothing loaded" if nothing else "state not copied" if own else ""
        if cause:
            at = (lived.attempt, int(event["step"]), event["site"], cause)
            found.setdefault(at, []).append((lived.rank, event))
    for (attempt, step, site, cause), loads in sorted(found.items(), key=lambda item: item[0]):
        ranks, event = tuple(sorted({rank for rank, _ in loads})), loads[0][1]
        evidence = {name: event[name] for name in ("keys", "unread", "lacking")}
        evidence["site"] = site or "a line that is not yours"
        return [Finding("checkpoint", cause, ranks, step, attempt, (site,) if site else (), evidence)]
    return []


def _came_past(history: History, step: int) -> bool:
    """Return whether the run did all of `step`: some rank began the next one, or ended well."""
    return any(
        lived.ended_well or any(int(e["step"]) > step for e in lived.of_kind("point"))
        for lived in history.ranks.values()
    )


def _torn(history: History, control: History) -> list[Finding]:
    """Return the restores of a file that holds what nobody wrote: neither a rank of this run nor what was laid there.

    Files that the control restored, too, were laid there before the run (weights to start from).
    """
    known = _contents(history) | {e["file"] for lived in control.ranks.values() for e in lived.payloads("restore")}
    wrong: dict[tuple[int, int, str], list[int]] = {}
    for (attempt, rank), lived in sorted(history.ranks.items()):
        for event in lived.payloads("restore"):
            if event["file"] is not None and event["file"] not in known and not _unclear(history, event["path"]):
                wrong.setdefault((attempt, int(event["step"]), str(event["path"])), []).append(rank)
    return [
        Finding("checkpoint", "torn checkpoint", tuple(ranks), step, attempt, evidence={"path": path})
        for (attempt, step, path), ranks in sorted(wrong.items())
    ]


def _of_another(history: History) -> list[Finding]:
    """Return the restores of a file that its rank had written, and that holds what another wrote under another name.

    A rank that reads what it wrote itself, too, looks for it, and one that takes no step refuses what it has read.
    """
    writes = [(lived.rank, str(e["path"]), e["file"]) for lived in history.ranks.values() for e in _written(lived)]
    wrong: dict[tuple[int, int], dict[int, tuple[str, str, int]]] = {}
    for (attempt, rank), lived in sorted(history.ranks.items()):
        own = {(path, content) for writer, path, content in writes if writer == rank}
        reads = lived.payloads("restore") if lived.last_step else ()
        if {event["file"] for event in reads} & {content for _, content in own}:
            continue
        for event in reads:
            path, content = str(event["path"]), event["file"]
            others = sorted((p, who) for who, p, held in writes if held == content is not None and p != path)
            if path in {p for p, _ in own} and others and not _unclear(history, path):
                wrong.setdefault((attempt, int(event["step"])), {})[rank] = (path, *others[0])
    found = []
    for (attempt, step), restores in sorted(wrong.items()):
        path, other, writer = restores[min(restores)]
        evidence = {"path": path, "other": other, "whose": name_ranks((writer,))}
        found.append(Finding("checkpoint", "state of another", tuple(sorted(restores)), step, attempt, (), evidence))
    return found


def _in_part(history: History, control: History) -> list[Finding]:
    """Return the restores of which something was left out, on either side, that the control's did not leave out."""
    wrong: dict[tuple[int, str, str], list[int]] = {}
    for lived in history.last:
        model = [e for other in control.last if other.rank == lived.rank for e in other.of_kind("restored")]
        known = {said for e in model for said in (e["lacking"], e["unread"])}
        for event in lived.of_kind("restored") if model else ():
            said = event["lacking"] or event["unread"]
            if said not in known:
                wrong.setdefault((int(event["step"]), event["path"], said), []).append(lived.rank)
    found = []
    for (step, path, said), ranks in sorted(wrong.items()):
        evidence = {"path": path, "said": said}
        found.append(Finding("checkpoint", "partial restore", tuple(ranks), step, history.attempts[-1], (), evidence))
    return found


def _mixed(history: History) -> list[Finding]:
    """Return the files that are left with other bytes than any rank has written, each in full."""
    known, found = _contents(history), []
    for path, left in _left(history).items():
        writes = [(lived.rank, e) for lived in history.last for e in _written(lived) if e["path"] == path]
        if not writes or left["file"] in known or _unclear(history, path) or _cut_short(history, path):
            continue
        step = max(int(event["step"]) for _, event in writes)
        ranks = sorted({rank for rank, event in writes if event["step"] == step})
        evidence = {"path": path, "events": _shown(history, path, step)}
        found.append(
            Finding("checkpoint", "interleaved file", tuple(ranks), step, history.attempts[-1], evidence=evidence)
        )
    return found


def _lost(history: History, control: History) -> list[Finding]:
    """Return the files of the control that are left without something that a rank wrote.

    Another rank wrote back what it had read before, or removed the file, as accesses show; or it wrote the whole file
    in the same step, with another content, which no rank of the control did.
    """
    left, found = _left(history), []
    for path, model in _left(control).items():
        if path in left and left[path]["file"] == model["file"]:
            continue
        changes = [touch for touch in _accesses(history, path) if touch.event["mode"] == "w"]
        removed = [pair for pair in pairwise(changes) if _takes_away(*pair)]
        shown = overwritten_in_turns([replace(lived, events=_of(lived, path)) for lived in history.last])
        stale = [_Touch(access.rank, access.event) for access in shown]
        blind = _written_over(history, path)
        if stale:
            found.append(_finding(history, path, stale[-2], stale[-1], "wrote back what it had read before"))
        elif removed and path not in left:
            found.append(_finding(history, path, *removed[-1], "removed it"))
        elif blind and not _written_over(control, path):
            found.append(_finding(history, path, *blind, "wrote over it"))
    return found


def _destroyed(history: History, control: History) -> list[Finding]:
    """Return the save that failed, if no file that is left holds a checkpoint in full, as one of the control's does.

    Nothing is returned if a checkpoint may lie in a file of which not all is on record.
    """
    good = max((float(e["t"]) for lived in history.last for e in lived.payloads("save")), default=0.0)
    raised = [(e, lived.rank) for lived in history.last for e in lived.of_kind("raised") if e["point"] == "save"]
    failed = [(event, rank) for event, rank in raised if event["t"] > good]
    if not failed or not shows_saves(control) or shows_saves(history) is not False:
        return []
    event, rank = failed[0]
    what = f"the save of rank {rank} failed, and no file that is left holds a whole checkpoint"
    evidence = {"what": what, "path": event["path"], "said": event["message"]}
    step, attempt = int(event["step"]), history.attempts[-1]
    return [Finding("checkpoint", "no checkpoint", (rank,), step, attempt, evidence=evidence)]


def _takes_away(earlier: _Touch, later: _Touch) -> bool:
    """Return whether a rank removes what another has written in the same step."""
    return (
        later.event["op"] == "remove" != earlier.event["op"]
        and later.rank != earlier.rank
        and later.event["step"] == earlier.event["step"]
    )


def _written_over(history: History, path: str) -> tuple[_Write, _Write] | None:
    """Return what a rank wrote to a path in the last step in which any did, and what another wrote and left there."""
    writes = [_Write(lived.rank, e) for lived in history.last for e in _written(lived) if e["path"] == path]
    last = max((write.event["step"] for write in writes), default=0)
    whole = {write.rank: write for write in writes if write.event["step"] == last}
    left = _left(history).get(path)
    kept = [write for write in whole.values() if write.event["file"] == (left["file"] if left is not None else None)]
    gone = [write for write in whole.values() if write.event["file"] is not None and write not in kept]
    return (gone[0], kept[0]) if gone and kept else None


def _finding(history: History, path: str, loser: _Touch | _Write, winner: _Touch | _Write, how: str) -> Finding:
    ranks, step = tuple(sorted({loser.rank, winner.rank})), loser.event["step"]
    evidence: dict[str, Any] = {"path": path, "loser": loser.rank, "winner": winner.rank, "how": how}
    evidence["events"] = _shown(history, path, step)
    return Finding("checkpoint", "lost write", ranks, step, history.attempts[-1], evidence=evidence)


def _left(history: History) -> dict[str, LeftEvent]:
    """Return what the last attempt left of the files that it wrote, by path."""
    last = history.attempts[-1] if history.attempts else 0
    return {e["path"]: e for e in history.seen("left") if e["attempt"] == last}


def _written(lived: RankHistory) -> list[PayloadEvent]:
    """Return what a rank recorded of each file that it finished writing, once for each time."""
    writes = lived.payloads("write")
    told = {e["path"] for e in writes}
    # A file object that was saved to is no more than its own writes.
    return [*writes, *(e for e in lived.payloads("save") if e["path"] not in told)]


def _contents(history: History) -> set[str | None]:
    """Return the digests of all that any rank meant to write."""
    return {e["file"] for lived in history.ranks.values() for e in _written(lived)}


def _unclear(history: History, path: str) -> bool:
    """Return whether it is not on record in full what ranks wrote to a path, or to what may have been renamed to it."""
    opened: set[str] = set()
    renamed: set[tuple[str | None, str]] = set()
    for lived in history.ranks.values():
        closed = Counter(e["path"] for e in lived.payloads("write"))
        points = lived.points("write")
        opened |= {e["path"] for e in _written(lived) if e["file"] is None}
        opened |= {p for p, times in Counter(_named(points, "open")).items() if times != closed[p]}
        renamed |= {(e.get("source"), e["path"]) for e in points if e["how"] == "rename"}
    came = _came_from(path, renamed)
    # A checkpoint that was saved to memory may have been copied to any file; of others' files nothing is on record.
    return None in came or bool({"(memory)", *came} & opened)


def _came_from(path: str, renamed: set[tuple[str | None, str]]) -> set[str | None]:
    """Return the path, and those from which a file may have come there by renames, of itself or of its folders.

    None stands for a path outside of the working folder.
    """
    found: set[str | None] = {path}
    wanted = [path]
    while wanted:
        here = wanted.pop()
        for source, to in renamed:
            if here == to or here.startswith(f"{to}/"):
                came = None if source is None else source + here[len(to) :]
                if came is not None and came not in found:
                    wanted.append(came)
                found.add(came)
    return found


def _named(points: Sequence[PointEvent], how: str) -> list[str]:
    return [e["path"] for e in points if e["how"] == how]


def _cut_short(history: History, path: str) -> bool:
    """Return whether a rank of the last attempt began a save to a path, and did not finish it."""
    return any(
        sum(e["path"] == path for e in lived.points("save")) > sum(e["path"] == path for e in lived.payloads("save"))
        for lived in history.last
    )


def _accesses(history: History, path: str) -> list[_Touch]:
    """Return what the ranks of the last attempt read and wrote of a path, in order of turns, of time without them."""
    found = [_Touch(lived.rank, e) for lived in history.last for e in _of(lived, path)]
    return sorted(found, key=lambda touch: (touch.event.get("turn") or 0, touch.event["t"]))


def _of(lived: RankHistory, path: str) -> tuple[AccessEvent, ...]:
    """Return a rank's accesses to one path."""
    return tuple(e for e in lived.of_kind("access") if e["key"] == path)


def _shown(history: History, path: str, step: int) -> list[dict[str, Any]]:
    """Return what a report shows of the accesses to a path in one step."""
    return [
        {"rank": rank, "step": step, "op": event["op"], "mode": event["mode"], "turn": event.get("turn")}
        for rank, event in _accesses(history, path)
        if event["step"] == step
    ]
