"""Explain a job that was started without us and stands still: the places of its ranks, and the odd one among them.

Nothing is started, stopped or changed in the job: its environment, its counters in /proc and its memory are read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from breakrank.host.stacks import spy
from breakrank.live.roster import Member, absent, all_here, children, find_members
from breakrank.live.sampling import Seen, look_at, merge
from breakrank.verdict import name_ranks


@dataclass(frozen=True)
class Group:
    """Ranks at the same place, doing the same there."""

    seen: tuple[Seen, ...]

    @property
    def first(self) -> Seen:
        """The first rank of the group, which stands for all: they are alike."""
        return self.seen[0]

    @property
    def names(self) -> str:
        """The names in words: `rank 1`, `ranks 0 and 2`, `process 4711`."""
        return _names(self.seen)


@dataclass(frozen=True)
class Answer:
    """The answer: one sentence, the odd ones, the groups (odd ones first), and notes."""

    sentence: str
    odd: tuple[Seen, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()


#: Things that stacks cannot show.
_ALIKE = (
    "all ranks have come to the same line; what stacks do not show is left: shapes, types, groups or numbers of calls "
    "that differ, the network, a device"
)
_PASSING = "who goes through a place was there at each look and ran in between: it comes by often, or polls there"
_SLOW = "a rank that is only slow will have come when you ask again"


def why(pids: Sequence[int]) -> Answer:
    """Look at the job of these processes and say what is odd. Raises `BreakrankError` if it cannot be looked at."""
    tool = spy()
    members = find_members(pids)
    begun = time.monotonic()
    looks = look_at(tool, members)
    elapsed = time.monotonic() - begun
    seen = only_ranks([merge(member, looks[member.pid]) for member in members])
    answer = judge(seen)
    count = max(len(taken) for taken in looks.values())
    processes = "1 process was" if len(seen) == 1 else f"{len(seen)} processes were"
    note = f"{processes} looked at {count} times in {elapsed:.1f} s, without pausing anything"
    workers = [words for one in answer.odd for words in _workers(tool, one)]
    return replace(answer, notes=(*workers, *answer.notes, note))


def _workers(tool: str, one: Seen) -> list[str]:
    """Say where the workers of a rank are that waits for them."""
    if one.changed or not one.place or not one.place.wait or not one.place.wait.name.startswith("DataLoader"):
        return []
    below = [Member(pid) for pid in children(one.member.pid)]
    seen = [merge(member, looks) for member, looks in zip(below, look_at(tool, below, 1).values(), strict=True)]
    return [
        f"worker {worker.member.pid} of {one.member.name} is at {worker.place.where}"
        for worker in seen
        if worker.role == "helper" and worker.place
    ]


def only_ranks(seen: Sequence[Seen]) -> list[Seen]:
    """Leave out what is no rank by its stack, a launcher or a rank's helper, unless that is all there is."""
    return [one for one in seen if not one.role] or list(seen)


def judge(seen: Sequence[Seen]) -> Answer:
    """Say in one sentence what is odd: the first rule that has something to say does."""
    # A rank that wakes up in a meeting which does not come about polls there; the others show whether it does.
    settled = [replace(one, woke=False) if one.woke and one.meets else one for one in seen]
    groups = _groups(settled)
    answer = (
        _does_not_run(groups)
        or (_missing(settled, groups) if all_here([one.member for one in seen]) else None)
        or _moving(seen, _groups(seen))
        # If ranks may be on other machines, a rank that is not here explains a wait only if nothing else does.
        or (_missing(settled, groups) if len(groups) == 1 else None)
        or _one_place(settled, groups)
        or _not_in_the_meeting(groups)
        or _different_ways(groups)
    )
    return replace(answer, notes=(*answer.notes, *_notes(seen)))


def _groups(seen: Sequence[Seen]) -> list[Group]:
    """Put ranks at the same place together, the largest group last."""
    found: dict[object, list[Seen]] = {}
    for one in seen:
        found.setdefault((one.place, one.state in "TtZXD" and one.state, _doing(one)), []).append(one)
    return sorted((Group(tuple(members)) for members in found.values()), key=lambda group: len(group.seen))


def _names(seen: Sequence[Seen]) -> str:
    ranks = [one.member.rank for one in seen if one.member.rank is not None]
    if len(ranks) == len(seen):
        return name_ranks(ranks)
    return " and ".join(one.member.name for one in seen)


def _everybody(seen: Sequence[Seen]) -> str:
    """Return `both ranks` or `all 8 ranks`."""
    if len(seen) < 3:
        return "both ranks" if len(seen) == 2 else _names(seen)
    return f"all {len(seen)} ranks"


def _doing(one: Seen) -> tuple[str, str, str]:
    """Return what a rank does: the verb for one, the verb for several, and where."""
    if one.state in "ZX":
        return ("has ended", "have ended", "")
    if one.place is None:
        return ("cannot be read", "cannot be read", "")
    wait, where = one.place.wait, one.place.where
    inside = f"in {wait.name} ({where})" if wait else f"at {where}"
    if one.state in "Tt":
        return ("is stopped", "are stopped", inside)
    if one.state == "D":
        return ("is held by the kernel", "are held by the kernel", inside)
    if one.changed:
        return ("runs", "run", f"in {one.place.frames[-1].function.split('.')[-1]} ({where})")
    if one.woke:
        return ("goes through", "go through", inside.removeprefix("in ").removeprefix("at "))
    if one.busy and not one.meets:
        return ("is busy", "are busy", inside)
    return ("waits", "wait", inside)


def says(group: Group, subject: str = "", before: Group | None = None) -> str:
    """Say what a group does: `rank 1 waits in barrier (train.py:8)`; without a verb that was said of the one before."""
    one, several, where = _doing(group.first)
    verb = several if len(group.seen) > 1 or subject.startswith(("all ", "both ")) else one
    said = bool(where) and before is not None and _doing(before.first)[0] == one
    return " ".join(word for word in (subject or group.names, "" if said else verb, where) if word)


def _all_say(odd: Sequence[Group], rest: Sequence[Group]) -> str:
    """Say what the odd ones do, then what the others do, or the empty string if there are none."""
    others = "all others" if odd and len(rest) == 1 and len(rest[0].seen) > 1 else ""
    groups = [*odd, *rest]
    befores = [None, *groups[:-1]]
    subjects = ["" if group in odd else others for group in groups]
    return ", ".join(map(says, groups, subjects, befores))


def _answer(sentence: str, odd: Sequence[Group], rest: Sequence[Group], *notes: str) -> Answer:
    return Answer(sentence, tuple(one for group in odd for one in group.seen), (*odd, *rest), notes)


def _does_not_run(groups: Sequence[Group]) -> Answer | None:
    """Answer with the ranks that are stopped, have ended, are held by the kernel or do not show their stacks."""
    for states, cure in (("Tt", _who_stopped), ("ZX", _last_words), ("D", _kernel), ("SR", _why_unread)):
        odd = [group for group in groups if group.first.state in states and (states != "SR" or not group.first.place)]
        if odd:
            rest = [group for group in groups if group not in odd]
            affected = [one for group in odd for one in group.seen]
            return _answer(f"{_all_say(odd, rest)}: {cure(affected)}", odd, rest)
    return None


def _who_stopped(stopped: Sequence[Seen]) -> str:
    traced = [one for one in stopped if one.tracer]
    if traced:
        return f"process {traced[0].tracer} traces {_names(traced)}, as a debugger does"
    lets = "lets it go on" if len(stopped) == 1 else "lets them go on"
    return f"kill -CONT {' '.join(str(one.member.pid) for one in stopped)} {lets}"


def _last_words(ended: Sequence[Seen]) -> str:
    return "the last output says more"


def _kernel(held: Sequence[Seen]) -> str:
    return "storage or a device does not answer (state D)"


def _why_unread(unread: Sequence[Seen]) -> str:
    return unread[0].unread


def _missing(seen: Sequence[Seen], groups: Sequence[Group]) -> Answer | None:
    members = [one.member for one in seen]
    missing = absent(members)
    if not missing:
        return None
    where = "missing" if all_here(members) else "not on this machine, if there is one"
    words = f"{name_ranks(missing)} {'is' if len(missing) == 1 else 'are'} {where}, {_all_say((), groups)}"
    world = max(member.world or 0 for member in members)
    here = f"{_names(seen)} {'is' if len(seen) == 1 else 'are'} here"
    return _answer(f"{words}: {here}, and the world size is {world}", (), groups)


def _moving(seen: Sequence[Seen], groups: Sequence[Group]) -> Answer | None:
    passing = [group for group in groups if group.first.woke and not group.first.changed]
    notes = [_PASSING] if passing else []
    if passing and len({one.place for one in seen}) == 1:
        return _answer(f"nothing is odd: {says(passing[0], _everybody(seen))}", (), groups, *notes)
    if not all(one.moves for one in seen):
        return None
    # Also if each was found at one place alone: of few looks at a fast job, all may happen to meet the same line.
    return _answer(f"nothing is odd: {_everybody(seen)} {'are' if len(seen) > 1 else 'is'} moving", (), groups, *notes)


def _one_place(seen: Sequence[Seen], groups: Sequence[Group]) -> Answer | None:
    if len(groups) > 1:
        return None
    if len(seen) == 1:
        return _answer(f"nothing to compare with: {says(groups[0])}", (), groups)
    threads = _groups_by_threads(seen)
    who = says(groups[0], _everybody(seen))
    if len(threads) > 1:
        return _answer(f"{who}, but their other threads are at different places", threads[:-1], threads[-1:])
    return _answer(f"no rank is the odd one out: {who}", (), groups, *([_ALIKE] if groups[0].first.meets else []))


def _groups_by_threads(seen: Sequence[Seen]) -> list[Group]:
    found: dict[object, list[Seen]] = {}
    for one in seen:
        found.setdefault(tuple(sorted(str(stack.place) for stack in one.threads)), []).append(one)
    return sorted((Group(tuple(members)) for members in found.values()), key=lambda group: len(group.seen))


def _not_in_the_meeting(groups: Sequence[Group]) -> Answer | None:
    odd = [group for group in groups if not group.first.meets]
    rest = [group for group in groups if group.first.meets]
    if not odd or not rest:
        return None
    away = [one for group in odd for one in group.seen]
    come = "has not come to it" if len(away) == 1 else "have not come to it"
    if len(rest) > 1:
        come = come.replace("to it", "to either")
    slow = [_SLOW] if any(one.moves for one in away) else []
    return _answer(f"{_all_say(odd, rest)}: {_names(away)} {come}", odd, rest, *slow)


def _different_ways(groups: Sequence[Group]) -> Answer:
    """Answer for ranks that wait at several places, all for other ranks or none. A largest group, if any, is right."""
    largest = len(groups[-1].seen)
    tie = sum(len(group.seen) == largest for group in groups) > 1
    ordered = sorted(groups, key=lambda group: (group.first.member.rank or 0, group.first.member.pid))
    odd, rest = (ordered, ordered[:0]) if tie else (list(groups[:-1]), list(groups[-1:]))
    waits = {group.first.place.wait for group in groups if group.first.place}
    who = "they" if tie else _names([one for group in odd for one in group.seen])
    if len(waits) == 1 and groups[0].first.meets:
        end = f"{who} came to it by another line, which is right only if it is the same call for all"
    else:
        end = f"{who} went {'different ways' if tie else 'another way'}"
    return _answer(f"{_all_say(odd, rest)}{_called_from(groups)}: {end}", odd, rest)


def _called_from(groups: Sequence[Group]) -> str:
    """Say where the calls part, if the innermost lines are the same."""
    places = [group.first.place for group in groups if group.first.place]
    if len({place.where for place in places}) > 1:
        return ""
    for column in zip(*(place.frames for place in places), strict=False):
        if len(set(column)) > 1:
            return f", called from {' and '.join(dict.fromkeys(frame.where for frame in column))}"
    return ""


def _notes(seen: Sequence[Seen]) -> list[str]:
    """Return what is not in the sentence: ranks elsewhere, two processes of one rank."""
    notes = []
    world = max((one.member.world or 0 for one in seen), default=0)
    known = {one.member.rank for one in seen if one.member.rank is not None}
    members = [one.member for one in seen]
    if known and world > len(known) and not (all_here(members) and absent(members)):
        notes.append(f"{len(known)} of {world} ranks are on this machine: ask on the others, too")
    twice = [rank for rank, count in Counter(one.member.rank for one in seen).items() if rank is not None and count > 1]
    notes += [f"rank {rank} is there more than once" for rank in twice]
    return notes
