"""The runner `hosts`: ranks on hosts that ssh reaches, started by our deputies there in torchrun's environment.

Nothing but ssh's server and python3 is needed there, and nothing is installed. The interpreter that runs pytest runs
the ranks where it has the same path, else `python3`.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import secrets
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.history.reader import LINES, records_of
from breakrank.nodes.hosts import Reached, reach
from breakrank.nodes.node import Node
from breakrank.nodes.rank_there import RankThere
from breakrank.plan.script import command_line, is_script
from breakrank.runners import environment
from breakrank.runners.base import RankProcess
from breakrank.runners.join_socket import Home
from breakrank.runners.kind import Resources, RunnerKind, RunSpec
from breakrank.runners.workdir import View, copy_folder
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.entry import HOME, SECRET
from breakrank_agent.protocol.frameworks import profile

#: The name of the file by which a host shows that it sees the run directory.
_NONCE = "seen-by-hosts"


@dataclass
class HostsRunner:
    """Starts the ranks of one attempt on `reached` hosts: the first ranks on the first one, and so on."""

    reached: Reached
    home: Home
    agent: bool = True
    #: By node: the interpreter of the ranks there, and the folder of the programs.
    pythons: dict[str, str] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    _keys: Iterator[int] = field(default_factory=itertools.count)

    @property
    def nodes(self) -> list[Node]:
        """The hosts."""
        return self.reached.nodes

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterator[RankProcess]:
        """Start the ranks of `attempt`, one after the other. Raises `BreakrankError`."""
        for node in self.nodes:
            node.put("plan.json", (folder / LINES / "plan.json").read_bytes())
        shares = share_out(plan.ranks, len(self.nodes))
        ports = [node.ask("ports", 1 + len(share)) for node, share in zip(self.nodes, shares, strict=True)]
        addresses = [
            f"{node.hello['address']}:{port}" for node, own in zip(self.nodes, ports, strict=True) for port in own[1:]
        ]
        for number, (node, share) in enumerate(zip(self.nodes, shares, strict=True)):
            for local, rank in enumerate(share):
                where = {
                    "LOCAL_RANK": str(local),
                    "LOCAL_WORLD_SIZE": str(len(share)),
                    "GROUP_RANK": str(number),
                    "GROUP_WORLD_SIZE": str(len(self.nodes)),
                    "MASTER_ADDR": self.nodes[0].hello["address"],
                }
                env = self._environment(plan, rank, attempt, ports[0][0], where, addresses)
                there = self._spawn(plan, node, rank, attempt, env)
                yield self._admit(there, plan, rank, attempt, folder, ports[0][0])

    def look(self) -> bool:
        """Hear whether a rank has started ranks of its own, which cannot be on hosts. Raises `BreakrankError`."""
        for node in self.nodes:
            if any((caller["hello"] or {}).get("place") for caller in node.callers if caller.get("hello")):
                raise BreakrankError(
                    "the script starts its ranks itself, which the runner hosts does: start it without the hosts"
                )
        return False

    def end_attempt(self) -> None:
        """End what the ranks left running."""
        with contextlib.suppress(BreakrankError):
            for node in self.nodes:
                node.clear()

    def close(self, write: Callable[..., None]) -> None:
        """Write how far the clocks of the hosts are apart, and leave them."""
        for node in self.nodes:
            write("clock", node=node.name, **node.offset.rounded())
        self.reached.close()

    def _spawn(self, plan: Plan, node: Node, rank: int, attempt: int, env: dict[str, str]) -> RankThere:
        boot = {
            "rank": rank,
            "attempt": attempt,
            "world": plan.ranks,
            "program": plan.program,
            "programs": self.programs.get(node.name, ""),
            "agent": self.agent,
        }
        python, by = self.pythons[node.name], "BREAKRANK_BOOT"
        argv = [python, "-m", "breakrank_agent.start.boot"]
        if plan.command:
            words = command_line(plan.command_of(attempt))
            argv = [python, *words[1:]] if is_script(plan.command) else words
            by = "BREAKRANK_ENTER" if self.agent else ""
            env |= {HOME: self.home.address, SECRET: self.home.secret} if self.agent else {}
        how = {"argv": argv, "env": env, "defaults": _defaults(plan, node), "cwd": node.work, "by": by}
        try:
            return node.spawn(f"{attempt}-{rank}-{next(self._keys)}", boot, how)
        except OSError as error:
            raise BreakrankError(f"host {node.name} cannot start rank {rank}: {error.strerror or error}") from None

    @staticmethod
    def _admit(there: RankThere, plan: Plan, rank: int, attempt: int, folder: Path, port: int) -> RankProcess:
        records = records_of(folder, attempt)
        there.crash_file, there.stacks_file = records / f"rank-{rank}.crash", records / f"rank-{rank}.stacks"
        return RankProcess(
            rank,
            there.pid,
            there.log,
            there.channel,
            there.words,
            there.pipes,
            port,
            plan.ranks,
            child_log=there.log.child,
        )

    def _environment(
        self, plan: Plan, rank: int, attempt: int, port: int, where: Mapping[str, str], addresses: list[str]
    ) -> dict[str, str]:
        """Return what a rank has beside the environment that a login there has."""
        env = environment.torchrun(rank, plan.ranks, attempt, plan.restarts, self.reached.session.id, port)
        env |= {
            **where,
            "BREAKRANK_SEED": str(plan.seed),
            "BREAKRANK_STEPS": str(plan.steps),
            "BREAKRANK_MERGED": str(plan.merged),
        }
        framework = profile(plan.framework)
        if framework.cluster is not None:
            env |= framework.cluster(rank, addresses, environment.of_rank(plan.environment, rank))
        if plan.pin:
            env |= {**environment.PINNED, **framework.environment, "PYTHONDONTWRITEBYTECODE": "1"}
        return env | environment.of_rank(plan.environment, rank)


def share_out(ranks: int, hosts: int) -> list[list[int]]:
    """Return the ranks of each host: one after the other, and on the first hosts one more where they do not divide."""
    numbers = iter(range(ranks))
    return [list(itertools.islice(numbers, ranks // hosts + (host < ranks % hosts))) for host in range(hosts)]


def _defaults(plan: Plan, node: Node) -> dict[str, str]:
    """Return what a rank has unless a login there has it."""
    interface = node.hello["interface"]
    # Without it gloo looks the host's own name up, which may lead to the loopback interface.
    names = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), interface) if interface else {}
    return {**names, **({"OMP_NUM_THREADS": "1"} if plan.command else {})}


class HostsKind(RunnerKind):
    """Ranks on hosts that ssh reaches."""

    name = "hosts"

    @contextlib.contextmanager
    def prepare(self, resources: Resources, spec: RunSpec) -> Iterator[tuple[HostsRunner, View | None]]:
        """Reach the hosts, and lay there what the ranks run, and what they work on, unless they see it here."""
        hosts = resources.hosts
        if not hosts.names:
            raise BreakrankError("the runner hosts needs to know them: --scenario-hosts=a,b, as ssh knows them")
        work, notes = _work(resources, spec)
        home = Home()
        names = hosts.names[: spec.plan.ranks]
        with contextlib.closing(reach(resources.session, hosts, names, home.address, home.secret)) as reached:
            runner = HostsRunner(reached, home, spec.agent)
            unseen = [node.name for node in reached.nodes if not _sees(node, spec.folder)]
            for node in reached.nodes:
                _prepare(runner, node, spec, None if not unseen else work)
                node.work = node.work or str(work)
            if unseen:
                notes += (f"host {unseen[0]} does not see the run directory: each host works on a copy of its own",)
            yield runner, View(work, notes=(*notes, *reached.notes))


def _work(resources: Resources, spec: RunSpec) -> tuple[Path, tuple[str, ...]]:
    """Return the folder in which ranks work if the hosts see it, and what is not in it."""
    if spec.where is None:
        return spec.folder / "work", ()
    if spec.in_place:
        return spec.where, ()
    work = spec.folder / "work"
    return work, copy_folder(spec.where, work, resources.runs, "the ranks are on other hosts")


def _sees(node: Node, folder: Path) -> bool:
    """Return whether a host sees the run directory under the same path."""
    nonce, text = folder / _NONCE, secrets.token_hex(16)
    nonce.write_text(text)
    try:
        return bool(node.ask("sees", str(nonce), text))
    finally:
        nonce.unlink()


def _prepare(runner: HostsRunner, node: Node, spec: RunSpec, work: Path | None) -> None:
    """Find the interpreter of the ranks, and send what is not seen there. Raises `BreakrankError`."""
    plan = spec.plan
    python = runner.pythons[node.name] = node.ask("python", sys.executable)
    try:
        lacks = node.ask("lacks", python, [profile(plan.framework).packages[0]] if not plan.command else [])
    except OSError as error:
        raise BreakrankError(f"host {node.name}: {python} does not run: {error.strerror or error}") from None
    if lacks:
        raise BreakrankError(f"host {node.name}: {python} does not find {lacks[0]}; install it there")
    if not plan.command:
        node.put("programs.tar", _packed(spec.programs))
        runner.programs[node.name] = node.ask("unpack", "programs.tar", "programs")
    if work is not None:
        if spec.in_place:
            raise BreakrankError(f"host {node.name} does not see {work}: leave --scenario-in-place out")
        node.put("work.tar", _packed(work))
        node.work = node.ask("unpack", "work.tar", "work")


def _packed(folder: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as files:
        for name in sorted(os.listdir(folder)):
            if name != "__pycache__":
                files.add(folder / name, name)
    return data.getvalue()


RUNNER = HostsKind()
