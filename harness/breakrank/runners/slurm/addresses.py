"""The addresses of this machine by which nodes of a cluster may reach it, the likeliest one first."""

from __future__ import annotations

import contextlib
import re
import socket

import psutil

from breakrank.host.slurm_jobs import ask

_CONTROLLER = re.compile(r"^SlurmctldHost\[0\]\s*=\s*([^\s(]+)(?:\(([^)]+)\))?", re.MULTILINE)


def own_addresses() -> list[str]:
    """Return them: that from which the controller is reached, those of all interfaces, and the host name."""
    found = [_toward_controller()]
    for interfaces in psutil.net_if_addrs().values():
        found += [one.address for one in interfaces if one.family == socket.AF_INET]
    usable = [address for address in found if address and not address.startswith("127.")]
    return list(dict.fromkeys([*usable, socket.gethostname()]))


def _toward_controller() -> str:
    """Return the address that this machine has in the network of the controller, empty if that is not known."""
    said = _CONTROLLER.search(ask("scontrol", "show", "config") or "")
    if said is None:
        return ""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        # Nothing is sent: the kernel only chooses the way.
        line.connect((said[2] or said[1], 9))
        return str(line.getsockname()[0])
    return ""
