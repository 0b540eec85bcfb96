"""A runner whose nodes are played (`support/player.py`): the Conductor, its wires and their deputies are real."""

from __future__ import annotations

import json
import secrets
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from breakrank.history.reader import LINES, records_of
from breakrank.host.session import Session
from breakrank.nodes.node import Node
from breakrank.nodes.reception import Reception
from breakrank.runners.base import RankProcess
from breakrank.runners.hosts import share_out
from breakrank.runners.join_socket import SECRET_BYTES
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan

PLAYER = Path(__file__).parent / "player.py"


@dataclass
class PlayedRunner:
    """Plays `records` on so many `nodes`. If the job `hangs`, rank `skips` makes another call than the last one."""

    session: Session
    records: Sequence[bytes]
    nodes: int
    hangs: bool = False
    skips: int = -1
    players: int = 4
    reached: list[Node] = field(default_factory=list)
    _players: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterator[RankProcess]:
        """Start the players, await their deputies, and take in the ranks that call there."""
        reception = Reception()
        mark, secret = secrets.token_hex(4), secrets.token_hex(SECRET_BYTES // 2)
        config = {"port": reception.port, "key": reception.key, "hosts": ["127.0.0.1"], "secret": secret}
        shares = share_out(plan.ranks, self.nodes)
        nodes = [
            {"name": f"node{n}", "home": f"breakrank-{mark}-{n}", "ranks": ranks} for n, ranks in enumerate(shares)
        ]
        for number in range(self.players):
            own = nodes[number :: self.players]
            settings = {"config": config, "nodes": own, "world": plan.ranks, "hangs": self.hangs, "skips": self.skips}
            self._play({**settings, "records": [line.decode() for line in self.records]})
        data = (folder / LINES / "plan.json").read_bytes()
        left = plan.ranks
        while left:
            sources = [reception, *self.reached]
            select.select(sources, [], [], 1.0)
            for wire, hello in reception.arrivals():
                node = Node(hello["name"], wire, hello)
                self.session.attach(node)
                node.compare_clocks()
                node.put("plan.json", data)
                self.reached.append(node)
                if len(self.reached) == self.nodes:
                    self._begin()
            for node in self.reached:
                node.pump()
                callers, node.callers[:] = list(node.callers), []
                for caller in callers:
                    left -= 1
                    yield self._admit(node, caller, plan, attempt, folder)
        reception.close()

    def look(self) -> bool:
        """Look at nothing."""
        return False

    def end_attempt(self) -> None:
        """End nothing: the ranks are gone."""

    def close(self, write: Callable[..., None]) -> None:
        """Leave the nodes, and wait for the players, which then end."""
        for node in self.reached:
            self.session.detach(node)
            node.close()
        for player in self._players:
            player.wait()

    def _play(self, settings: dict[str, object]) -> None:
        player = subprocess.Popen([sys.executable, str(PLAYER)], stdin=subprocess.PIPE, text=True)
        player.stdin.write(json.dumps(settings) + "\n")
        player.stdin.flush()
        self._players.append(player)

    def _begin(self) -> None:
        """Have the players start the ranks."""
        for player in self._players:
            player.stdin.write("go\n")
            player.stdin.close()

    def _admit(self, node: Node, caller: dict[str, object], plan: Plan, attempt: int, folder: Path) -> RankProcess:
        rank = caller["hello"]["rank"]
        there = node.admit(caller["caller"], {"rank": rank, "attempt": attempt, "world": plan.ranks})
        records = records_of(folder, attempt)
        there.crash_file, there.stacks_file = records / f"rank-{rank}.crash", records / f"rank-{rank}.stacks"
        ends = there.log, there.channel, there.words
        return RankProcess(rank, there.pid, *ends, world=plan.ranks, child_log=there.log.child)
