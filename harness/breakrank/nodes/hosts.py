"""Hosts that ssh reaches: a deputy is brought to each, and calls back."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from breakrank.errors import BreakrankError
from breakrank.host.session import Session
from breakrank.host.wire import WireCut
from breakrank.nodes.host_names import Hosts
from breakrank.nodes.login import Login
from breakrank.nodes.node import Node
from breakrank.nodes.reception import Reception, hello_of

#: The seconds within which a deputy must have called, and ssh must have ended once nobody is left there.
_CALLS_WITHIN_S, _ENDS_WITHIN_S = 60.0, 15.0


@dataclass
class Reached:
    """Hosts on which our deputies serve, in the order in which they were named. `notes` say what is not as usual."""

    session: Session
    nodes: list[Node] = field(default_factory=list)
    logins: dict[str, Login] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Leave all of them, and wait until nothing of ours is left there."""
        for node in self.nodes:
            self.session.detach(node)
            node.close()
        for login in self.logins.values():
            login.hang_up()
        until = time.monotonic() + _ENDS_WITHIN_S
        for login in self.logins.values():
            login.await_end(until - time.monotonic())
            self.session.kept.discard(login.pid)
            login.close()
        self.nodes, self.logins = [], {}


def reach(session: Session, hosts: Hosts, names: Sequence[str], home: str, secret: str) -> Reached:
    """Bring a deputy to each of these hosts; agents there call `home` with `secret`. Raises `BreakrankError`."""
    reached = Reached(session)
    reception = Reception()
    try:
        settings = {"port": reception.port, "key": reception.key, "home": home, "secret": secret}
        for name in names:
            login = reached.logins[name] = Login(session, hosts.ssh, name, settings)
            session.kept.add(login.pid)
        _await_all(reached, reception, names)
        reached.nodes.sort(key=lambda node: names.index(node.name))
        _check_different(reached.nodes)
        for node in reached.nodes:
            session.attach(node)
            node.compare_clocks()
    except BaseException:
        with contextlib.suppress(BreakrankError):
            reached.close()
        raise
    finally:
        reception.close()
    return reached


def _await_all(reached: Reached, reception: Reception, names: Sequence[str]) -> None:
    """Wait until each deputy has called, by TCP or through ssh."""
    until = time.monotonic() + _CALLS_WITHIN_S
    missing = dict(reached.logins)
    while missing:
        sources = [reception.fileno(), *(source for login in missing.values() for source in login.sources())]
        writers = [target for login in missing.values() for target in login.targets()]
        select.select(sources, writers, [], 0.2)
        for wire, hello in reception.arrivals():
            login = missing.pop(hello["name"], None)
            if login is None:
                wire.close()
            else:
                reached.nodes.append(Node(login.name, wire, hello, login.why))
        for login in list(missing.values()):
            piped = _through_ssh(login)
            if piped is not None:
                del missing[login.name]
                reached.nodes.append(piped)
                reached.notes.append(
                    f"host {login.name} does not reach this machine by TCP (port {reception.port}): "
                    "all goes through its ssh"
                )
            elif login.over:
                why = login.why() or "its ssh ended without a word"
                raise BreakrankError(f"host {login.name} cannot be used: {why}")
        if missing and time.monotonic() > until:
            raise BreakrankError(f"host {next(iter(missing))} cannot be used: nothing called from there in time")


def _through_ssh(login: Login) -> Node | None:
    """Return the node at the other end of ssh's own pipes, once its deputy has spoken there."""
    try:
        wire = login.go_on()
        if wire is None:
            return None
        messages = login.first
        until = time.monotonic() + _CALLS_WITHIN_S
        while not messages and time.monotonic() < until:
            wire.wait(0.2)
            messages = wire.receive()
        wire.keep(messages[1:])
        return Node(login.name, wire, hello_of(messages[0] if messages else {}), login.why)
    except WireCut as error:
        raise BreakrankError(f"host {login.name} cannot be used: {login.why() or error}") from None


def _check_different(nodes: Sequence[Node]) -> None:
    """Raise `BreakrankError` where two names lead to one machine."""
    machines: dict[str, str] = {}
    for node in nodes:
        other = machines.setdefault(node.hello["machine"], node.name)
        if other != node.name:
            raise BreakrankError(f"hosts {other} and {node.name} are one machine; name each machine once")
