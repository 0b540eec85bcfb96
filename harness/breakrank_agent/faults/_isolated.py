"""Bases of faults of the network, for a rank that has a network of its own; no family of faults."""

from __future__ import annotations

from breakrank_agent.kernel import packet_relay
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target

#: The rank's end of the cable, as the rank names it.
DEVICE = "eth0"


class Isolated(Fault, abstract=True, side="outside", walled=True, needs=("netns",)):
    """A fault of the network of one rank, which must be the rank's own."""


class Filtered(Isolated, abstract=True, needs=("netns", "nft")):
    """A fault that has the rank's kernel drop some packets."""

    def heal(self, target: Target) -> None:
        """Remove the rules."""
        remove_rules(target, target.rank)


class Relayed(Isolated, abstract=True, needs=("netns", "tun")):
    """A fault that has everything that leaves the rank pass through a relay."""

    def settings(self) -> tuple[float, ...]:
        """Return the settings of the relay: the arguments of the script."""
        raise NotImplementedError

    def strike(self, target: Target) -> None:
        """Start the relay, and redirect the packets to it."""
        target.kept["relay"] = target.start(packet_relay.__file__, *map(str, self.settings()))
        target.walls.run("ip", "link", "set", packet_relay.DEVICE, "up")
        target.walls.run("tc", "qdisc", "add", "dev", DEVICE, "clsact")
        everything = ("protocol", "all", "prio", "1", "u32", "match", "u32", "0", "0")
        there = ("action", "mirred", "egress", "redirect", "dev", packet_relay.DEVICE)
        target.walls.run("tc", "filter", "add", "dev", DEVICE, "egress", *everything, *there)

    def heal(self, target: Target) -> None:
        """Remove the relay, with the packets that are in it."""
        target.walls.run("tc", "qdisc", "del", "dev", DEVICE, "clsact")
        target.stop(target.kept["relay"])


def add_rules(target: Target, rank: int, input: str = "", output: str = "") -> None:
    """Add rules for packets that enter a rank's network, and that leave it, in a table of this strike alone."""
    # Packets that leave are filtered before an engine rewrites their address: its own name server has another port.
    chains = [
        f"chain {hook} {{\n type filter hook {hook} priority {priority}\n {rule}\n}}"
        for hook, priority, rule in (("input", "filter", input), ("output", "raw", output))
        if rule
    ]
    table = f"table inet {_table(target)} {{\n" + "\n".join(chains) + "\n}\n"
    target.walls_of(rank).run("nft", "-f", "-", text=table)


def remove_rules(target: Target, rank: int) -> None:
    """Remove the rules of this strike from a rank's network. Raises `OSError`."""
    target.walls_of(rank).run("nft", "delete", "table", "inet", _table(target))


def _table(target: Target) -> str:
    """Return the name of the strike's rules: the same fault may strike a rank twice, and is healed twice."""
    return f"breakrank_{target.number}"
