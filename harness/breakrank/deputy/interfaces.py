"""The network interfaces of this machine, by their addresses."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct

#: ioctl(2), see netdevice(7): the address of an interface. Its name has sixteen bytes, the address follows.
_SIOCGIFADDR = 0x8915


def interface_of(address: str) -> str:
    """Return the interface that has an IPv4 address, empty if there is none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""
