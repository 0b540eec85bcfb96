"""The deputies on the nodes of a job: each calls once the task prolog has started it, and tells who calls there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.history.reader import LINES, records_of
from breakrank.host.node_pid import NodePid
from breakrank.host.session import Session
from breakrank.nodes.node import Node
from breakrank.nodes.reception import Reception
from breakrank.runners.base import RankProcess
from breakrank.runners.join_socket import HELLO_BYTES, parse_hello
from breakrank.runners.slurm.addresses import own_addresses
from breakrank_agent.protocol.checked import Unfit


@dataclass
class CallerThere:
    """A process that has called at the door of a node, and what it said."""

    node: Node
    key: str
    pid: NodePid
    hello: dict[str, Any]

    def hang_up(self) -> None:
        """Leave it to itself."""
        with contextlib.suppress(BreakrankError):
            self.node.refuse(self.key)


class Deputies:
    """All deputies of one run, whose ranks work in `work`. `refused` says why callers were not taken in."""

    def __init__(self, session: Session, folder: Path, work: Path) -> None:
        self._session, self._folder, self._work = session, folder, str(work)
        self._reception = Reception()
        self.nodes: list[Node] = []
        self.refused: list[str] = []
        #: Processes that trained, or joined a group, and are no ranks: node, pid, and what they said.
        self.unranked: list[tuple[Node, int, dict[str, Any]]] = []

    def settings(self, home: str, secret: str, guest: bool) -> dict[str, Any]:
        """Return what a deputy has to know: the addresses of this machine, and what its ranks call."""
        told = {"port": self._reception.port, "key": self._reception.key, "hosts": own_addresses()}
        return {**told, "home": home, "secret": secret, "guest": guest, "step": True}

    def sources(self) -> list[int]:
        """Return descriptors that are readable when a deputy has come. Those of nodes are the session's."""
        return [self._reception.fileno()]

    def callers(self) -> Iterator[CallerThere]:
        """Yield the ranks that have called at any node since the last time."""
        self._welcome()
        for node in self.nodes:
            said, node.callers[:] = list(node.callers), []
            for one in said:
                caller = self._hear(node, one)
                if caller is not None:
                    yield caller

    def _welcome(self) -> None:
        """Take in the deputies that have come."""
        for wire, hello in self._reception.arrivals():
            node = Node(hello["host"], wire, hello)
            node.work, node.leaves = self._work, True
            self.nodes.append(node)
            self._session.attach(node)
            node.compare_clocks()
            node.put("plan.json", (self._folder / LINES / "plan.json").read_bytes())

    def _hear(self, node: Node, said: dict[str, Any]) -> CallerThere | None:
        """Return the rank that has called; keep what is said of one that is none."""
        if said.get("refused"):
            self.refused.append(f"node {node.name}: {said['refused']}")
            return None
        try:
            hello = parse_hello(json.dumps(said.get("hello")).encode())
        except Unfit as error:
            self.refused.append(f"node {node.name}: process {said['pid']} was not taken in: {error}"[:HELLO_BYTES])
            return None
        if "did" in hello:
            self.unranked.append((node, said["pid"], hello))
            return None
        return CallerThere(node, said["caller"], NodePid(node, said["pid"]), hello)

    def admit(self, caller: CallerThere, boot: dict[str, Any], folder: Path) -> RankProcess:
        """Have a caller taken in. Raises `ProcessLookupError` if it has ended since."""
        there = caller.node.admit(caller.key, boot)
        records = records_of(folder, boot["attempt"])
        rank = boot["rank"]
        there.crash_file, there.stacks_file = records / f"rank-{rank}.crash", records / f"rank-{rank}.stacks"
        store, world = caller.hello["store"], boot["world"]
        ends = there.log, there.channel, there.words
        return RankProcess(rank, there.pid, *ends, store=store, world=world, child_log=there.log.child)

    def clear(self) -> None:
        """Leave all nodes: their deputies end what is ours there."""
        for node in self.nodes:
            self._session.detach(node)
            node.close()

    def close(self, write: Callable[..., None], attempt: int) -> None:
        """Write what was seen of the nodes, leave them, and listen no more."""
        for node in self.nodes:
            write("clock", node=node.name, **node.offset.rounded())
        for _, pid, hello in self.unranked:
            rank, world = hello["place"] or (None, None)
            facts = {"did": hello["did"][:100], "below": hello["below"], "rank": rank, "world": world}
            write("unranked", attempt=attempt, pid=pid, own=False, **facts)
        self.clear()
        self._reception.close()
