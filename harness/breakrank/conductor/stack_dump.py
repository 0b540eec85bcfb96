"""The stacks of ranks that are about to be ended: Python's always, native ones where the log does not say enough."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from breakrank.conductor.rank import Rank
from breakrank.host.node_pid import number_of
from breakrank.host.places import by_place, nodes_of, stopped_among
from breakrank.host.session import Session
from breakrank.host.stack_dump import dump_stacks

#: Causes of which the collective log is no explanation: C or C++ may be what does not come back.
_UNEXPLAINED = ("deadline", "deadlock", "blocked in a lock", "GIL deadlock")


def take_stacks(session: Session, folder: Path, ranks: Mapping[int, Rank], why: str) -> dict[int, str]:
    """Return the stacks of live ranks as text. `folder` is that of the lines, into which each dumps its own."""
    names = {rank.process.pid: str(number) for number, rank in ranks.items()}
    stopped = stopped_among(names)
    native = why in _UNEXPLAINED
    here = {name: pid for pid, name in names.items() if isinstance(pid, int)}
    files = {name: folder / f"rank-{name}.stacks" for name in here}
    texts = dump_stacks(session.signal, here, files, [n for n, pid in here.items() if pid in stopped], native)
    there = by_place(names)
    begun = []
    for node in nodes_of(names):
        pids = {names[pid]: number_of(pid) for pid in there[node]}
        begun.append(node.begin("stacks", pids, [names[pid] for pid in there[node] if pid in stopped], native))
    for answer in begun:
        texts |= answer()
    return {int(name): str(text) for name, text in texts.items()}
