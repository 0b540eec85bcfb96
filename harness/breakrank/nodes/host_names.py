"""The hosts that ranks can be started on, as the user names them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hosts:
    """The names of hosts as ssh knows them, and the words of the command that reaches them."""

    names: tuple[str, ...] = ()
    ssh: tuple[str, ...] = ("ssh",)


#: No host but this machine.
HERE = Hosts()
