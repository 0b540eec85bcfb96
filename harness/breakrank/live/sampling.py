"""Several looks at the processes of a running job, and their result: the place of each rank, and whether it moves."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from breakrank.host.stacks import Place, Stack, read_stacks
from breakrank.live.roster import Member

#: Samples of the ranks, enough to see a rank that moves move.
LOOKS = 5
#: Looks enough for a job in which every rank has been seen to move.
_FEWEST = 3
_PAUSE_S = 0.12
#: With very many ranks there are fewer looks, but two at least.
_BUDGET_S = 2.0
#: More often than this a thread that waits for good does not wake up while we look: its polls are seconds apart.
_WAKES = 2


@dataclass(frozen=True)
class Look:
    """One look at one process: its state as /proc has it (empty: gone), the wake-ups of its main thread, its stacks."""

    state: str
    wakes: int = 0
    tracer: int = 0
    stacks: tuple[Stack, ...] = ()
    unread: str = ""


@dataclass(frozen=True)
class Seen:
    """One rank over all looks.

    `place` is what all of them agree on, None if its stack was never read. `changed`: it was seen at several places;
    `woke`: at one, but it ran in between; `busy`: it was computing. `threads` are its other threads with user's code.
    `role` is launcher or helper if a look showed that it is one.
    """

    member: Member
    state: str
    place: Place | None = None
    changed: bool = False
    woke: bool = False
    busy: bool = False
    tracer: int = 0
    threads: tuple[Stack, ...] = ()
    unread: str = ""
    role: str = ""

    @property
    def moves(self) -> bool:
        """True if the process moved between the looks."""
        return self.state not in "TtZ" and (self.changed or self.woke)

    @property
    def meets(self) -> bool:
        """True if the rank waits for other ranks. A backward pass that computes nothing waits for DDP's all-reduce."""
        wait = self.place.wait if self.place else None
        if wait is None or self.changed:
            return False
        return wait.kind == "meeting" or (wait.kind == "backward" and not self.busy and not self.woke)


def look_at(tool: str, members: Sequence[Member], most: int = LOOKS) -> dict[int, list[Look]]:
    """Look at all processes several times; return the looks at each pid."""
    looks: dict[int, list[Look]] = {member.pid: [] for member in members}
    end = time.monotonic() + _BUDGET_S
    with ThreadPoolExecutor(min(32, max(1, len(members)))) as pool:
        for number in range(most):
            for member, look in zip(members, pool.map(lambda m: _look(tool, m.pid), members), strict=True):
                looks[member.pid].append(look)
            late = number > 0 and time.monotonic() > end
            if late or (number + 1 >= _FEWEST and all(merge(m, looks[m.pid]).moves for m in members)):
                break
            if number + 1 < most:
                time.sleep(_PAUSE_S)
    return looks


def _look(tool: str, pid: int) -> Look:
    try:
        pairs = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        fields = {name: value.strip() for name, _, value in pairs}
    except OSError:
        return Look("")
    look = Look(fields["State"][:1], int(fields.get("voluntary_ctxt_switches", 0)), int(fields["TracerPid"]))
    if look.state in "ZX":
        return look
    stacks, unread = read_stacks(tool, pid)
    return replace(look, stacks=tuple(stacks), unread=unread)


def merge(member: Member, looks: Sequence[Look]) -> Seen:
    """Say what several looks at a process come to."""
    last = looks[-1]
    state = "D" if all(look.state == "D" for look in looks) else last.state.replace("D", "S")
    read = [look.stacks for look in looks if look.stacks]
    mains = [next(stack for stack in stacks if stack.main) for stacks in read]
    if not mains or state in ("", "Z", "X"):
        return Seen(member, state or "X", tracer=last.tracer, unread=last.unread)
    # A stack that was torn, read while it changed, does not reach down to where the thread began.
    root = Counter(stack.root for stack in mains).most_common(1)[0][0]
    places = [stack.place for stack in mains if stack.root == root]
    roles = [place.wait.kind for place in places if place.wait and place.wait.kind in ("launcher", "helper")]
    return Seen(
        member,
        state,
        common(places),
        changed=len(set(places)) > 1,
        woke=last.wakes - looks[0].wakes > _WAKES,
        busy=2 * sum(look.state == "R" for look in looks) > len(looks),
        tracer=last.tracer,
        threads=tuple(stack for stack in read[-1] if stack.own and not stack.main),
        role=roles[0] if roles else "",
    )


def common(places: Sequence[Place]) -> Place:
    """Return what these have in common: the frames down to the first at several lines, and the wait if all agree."""
    frames = []
    for column in zip(*(place.frames for place in places), strict=False):
        if len({(frame.file, frame.function) for frame in column}) > 1:
            break
        lines = sorted({frame.line for frame in column})
        frames.append(column[0] if len(lines) == 1 else replace(column[0], line=lines[0], until=lines[-1]))
        if len(lines) > 1:
            break
    waits = {place.wait for place in places}
    if len({place.frames for place in places}) > 1 or len(waits) > 1:
        return Place(tuple(frames) or places[-1].frames)
    return places[0]
